// The guarded copy for AArch64 (AAPCS64): x0 = to, x1 = from, x2 = length; x0 = 0 when all was copied.
// A leaf that never moves sp: the signal handler can resume at the fix-up from any instruction of it.
//
// As on x86-64, stores are aligned to their own size, ascend and never repeat a byte; here the processor may reorder
// them, so a barrier stands before every piece that can be the last, and before the last line.
#if defined(__aarch64__)

  .text
  .p2align 6
  .globl verbatim_guarded_copy
  .hidden verbatim_guarded_copy
  .type verbatim_guarded_copy, %function
verbatim_guarded_copy:
  .cfi_startproc
  cmp x2, #8
  b.ne .Lnot_eight
  tst x0, #7
  b.ne .Lascend
  ldr x3, [x1]
  str x3, [x0]
  mov x0, #0
  ret

.Lnot_eight:
  cmp x2, #128
  b.hi .Llong

// Any length in ascending order: up to a multiple of 16 if there are bytes enough, then 16 at a time.
.Lascend:
  tst x0, #15
  b.eq .Laligned
  tbz x0, #0, .Lalign_two
  cbz x2, .Ldone
  ldrb w3, [x1], #1
  strb w3, [x0], #1
  sub x2, x2, #1
.Lalign_two:
  tbz x0, #1, .Lalign_four
  cmp x2, #2
  b.lo .Llast
  ldrh w3, [x1], #2
  dmb ishst
  strh w3, [x0], #2
  sub x2, x2, #2
.Lalign_four:
  tbz x0, #2, .Lalign_eight
  cmp x2, #4
  b.lo .Llast
  ldr w3, [x1], #4
  dmb ishst
  str w3, [x0], #4
  sub x2, x2, #4
.Lalign_eight:
  tbz x0, #3, .Laligned
  cmp x2, #8
  b.lo .Llast
  ldr x3, [x1], #8
  dmb ishst
  str x3, [x0], #8
  sub x2, x2, #8

.Laligned:
  cmp x2, #16
  b.ls .Llast
  dmb ishst
.Lsixteen:
  ldp x3, x4, [x1], #16
  stp x3, x4, [x0], #16
  sub x2, x2, #16
  cmp x2, #16
  b.hi .Lsixteen

// The last 16 bytes or fewer, in pieces of 8, 4, 2, 1.
.Llast:
  cmp x2, #8
  b.lo .Lbelow_eight
  ldr x3, [x1], #8
  dmb ishst
  str x3, [x0], #8
  sub x2, x2, #8
  b .Llast
.Lbelow_eight:
  tbz x2, #2, .Lbelow_four
  ldr w3, [x1], #4
  dmb ishst
  str w3, [x0], #4
.Lbelow_four:
  tbz x2, #1, .Lbelow_two
  ldrh w3, [x1], #2
  dmb ishst
  strh w3, [x0], #2
.Lbelow_two:
  tbz x2, #0, .Ldone
  ldrb w3, [x1]
  dmb ishst
  strb w3, [x0]
.Ldone:
  mov x0, #0
  ret

// The first line ascending, the whole lines between in bulk, then the last line (1 to 64 bytes) ascending.
.Llong:
  tbz x0, #0, .Llong_two
  ldrb w3, [x1], #1
  strb w3, [x0], #1
  sub x2, x2, #1
.Llong_two:
  tbz x0, #1, .Llong_four
  ldrh w3, [x1], #2
  strh w3, [x0], #2
  sub x2, x2, #2
.Llong_four:
  tbz x0, #2, .Llong_eight
  ldr w3, [x1], #4
  str w3, [x0], #4
  sub x2, x2, #4
.Llong_eight:
  tbz x0, #3, .Lfirst_line
  ldr x3, [x1], #8
  str x3, [x0], #8
  sub x2, x2, #8
.Lfirst_line:
  ldp x3, x4, [x1], #16
  stp x3, x4, [x0], #16
  sub x2, x2, #16
  tst x0, #63
  b.ne .Lfirst_line

  sub x5, x2, #1
  ands x5, x5, #-64
  b.eq .Laligned
  sub x2, x2, x5
.Lline:
  ldp q0, q1, [x1], #32
  ldp q2, q3, [x1], #32
  stp q0, q1, [x0], #32
  stp q2, q3, [x0], #32
  subs x5, x5, #64
  b.ne .Lline
  b .Laligned

  .globl verbatim_guarded_copy_end
  .hidden verbatim_guarded_copy_end
verbatim_guarded_copy_end:

// The handler has put the faulting address into x1, the second half of the result.
  .globl verbatim_guarded_copy_fixup
  .hidden verbatim_guarded_copy_fixup
verbatim_guarded_copy_fixup:
  mov x0, #1
  ret
  .cfi_endproc
  .size verbatim_guarded_copy, .-verbatim_guarded_copy

#endif

  .section .note.GNU-stack, "", %progbits
