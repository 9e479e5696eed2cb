// The guarded atomics for x86-64 (System V): rdi = where, rsi and rdx = operands; rax = 0 and rdx = what the word was.
// Leaves that never move rsp, resumed where guarded_copy_x86_64.S says: rax = 1 and rdx = the address of the fault.
#if defined(__x86_64__)

  .text
  .p2align 4
  .globl verbatim_guarded_atomic
  .hidden verbatim_guarded_atomic
verbatim_guarded_atomic:

  .globl verbatim_guarded_compare_swap
  .hidden verbatim_guarded_compare_swap
  .type verbatim_guarded_compare_swap, @function
verbatim_guarded_compare_swap:
  .cfi_startproc
  movq %rsi, %rax
  lock cmpxchgq %rdx, (%rdi)
  movq %rax, %rdx
  xorl %eax, %eax
  ret
  .cfi_endproc
  .size verbatim_guarded_compare_swap, .-verbatim_guarded_compare_swap

  .p2align 4
  .globl verbatim_guarded_fetch_add
  .hidden verbatim_guarded_fetch_add
  .type verbatim_guarded_fetch_add, @function
verbatim_guarded_fetch_add:
  .cfi_startproc
  lock xaddq %rsi, (%rdi)
  movq %rsi, %rdx
  xorl %eax, %eax
  ret
  .cfi_endproc
  .size verbatim_guarded_fetch_add, .-verbatim_guarded_fetch_add

// An exchange with memory is locked without being told.
  .p2align 4
  .globl verbatim_guarded_store
  .hidden verbatim_guarded_store
  .type verbatim_guarded_store, @function
verbatim_guarded_store:
  .cfi_startproc
  xchgq %rsi, (%rdi)
  movq %rsi, %rdx
  xorl %eax, %eax
  ret
  .cfi_endproc
  .size verbatim_guarded_store, .-verbatim_guarded_store

  .globl verbatim_guarded_atomic_end
  .hidden verbatim_guarded_atomic_end
verbatim_guarded_atomic_end:

#endif

  .section .note.GNU-stack, "", %progbits
