// The guarded atomics for AArch64 (AAPCS64): x0 = where, x1 and x2 = operands; x0 = 0 and x1 = what the word was.
// Leaves that never move sp, resumed where guarded_copy_aarch64.S says: x0 = 1 and x1 = the address of the fault.
//
// Exclusive pairs, which every AArch64 processor has. They are atomic against the single instructions of later ones.
// The barrier at the end keeps what follows behind the store, also where it is read without acquire.
#if defined(__aarch64__)

  .text
  .p2align 4
  .globl verbatim_guarded_atomic
  .hidden verbatim_guarded_atomic
verbatim_guarded_atomic:

  .globl verbatim_guarded_compare_swap
  .hidden verbatim_guarded_compare_swap
  .type verbatim_guarded_compare_swap, %function
verbatim_guarded_compare_swap:
  .cfi_startproc
  mov x4, x0
.Lcompare:
  ldaxr x3, [x4]
  cmp x3, x1
  b.ne .Lcompared
  stlxr w5, x2, [x4]
  cbnz w5, .Lcompare
.Lcompared:
  dmb ish
  mov x1, x3
  mov x0, #0
  ret
  .cfi_endproc
  .size verbatim_guarded_compare_swap, .-verbatim_guarded_compare_swap

  .p2align 4
  .globl verbatim_guarded_fetch_add
  .hidden verbatim_guarded_fetch_add
  .type verbatim_guarded_fetch_add, %function
verbatim_guarded_fetch_add:
  .cfi_startproc
  mov x4, x0
.Ladd:
  ldaxr x3, [x4]
  add x2, x3, x1
  stlxr w5, x2, [x4]
  cbnz w5, .Ladd
  dmb ish
  mov x1, x3
  mov x0, #0
  ret
  .cfi_endproc
  .size verbatim_guarded_fetch_add, .-verbatim_guarded_fetch_add

  .p2align 4
  .globl verbatim_guarded_store
  .hidden verbatim_guarded_store
  .type verbatim_guarded_store, %function
verbatim_guarded_store:
  .cfi_startproc
  stlr x1, [x0]
  dmb ish
  mov x0, #0
  ret
  .cfi_endproc
  .size verbatim_guarded_store, .-verbatim_guarded_store

  .globl verbatim_guarded_atomic_end
  .hidden verbatim_guarded_atomic_end
verbatim_guarded_atomic_end:

#endif

  .section .note.GNU-stack, "", %progbits
