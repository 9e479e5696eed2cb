// The guarded copy for AArch64 (AAPCS64): x0 = to, x1 = from, x2 = length, x3 = the thread's watch (interruption.h);
// x0 = 0 when all was copied, 2 when the thread was interrupted, with x1 = the bytes that were not copied.
// A leaf that never moves sp: the signal handler can resume at the fix-up from any instruction of it.
//
// As on x86-64, stores are aligned to their own size, ascend and never repeat a byte; here the processor may reorder
// them, so a barrier stands before every piece that can be the last, and before the last line. Each store moves x0 in
// the same instruction: wherever the thread is interrupted, x0 says exactly what has been stored.
#if defined(__aarch64__)

// What the kernel asks of the place where it puts an interrupted thread (rseq(2)).
#define ABORT_SIGNATURE 0xd428bc00

  .section .data.rel.ro, "aw"
  .p2align 5
  .globl verbatim_copy_sequence
  .hidden verbatim_copy_sequence
  .type verbatim_copy_sequence, %object
verbatim_copy_sequence:
  .word 0, 0
  .xword .Lbegin, .Lend - .Lbegin, .Labort
  .size verbatim_copy_sequence, .-verbatim_copy_sequence

  .p2align 3
  .globl verbatim_copy_unwatched
  .hidden verbatim_copy_unwatched
  .type verbatim_copy_unwatched, %object
verbatim_copy_unwatched:
  .xword verbatim_copy_sequence
  .size verbatim_copy_unwatched, .-verbatim_copy_unwatched

  .text
  .p2align 6
  .globl verbatim_guarded_copy
  .hidden verbatim_guarded_copy
  .type verbatim_guarded_copy, %function
verbatim_guarded_copy:
  .cfi_startproc
  add x7, x0, x2
  adrp x6, verbatim_copy_sequence
  add x6, x6, :lo12:verbatim_copy_sequence
.Lbegin:
  ldr x5, [x3]
  cmp x5, x6
  b.ne .Linterrupted
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
  ldrb w3, [x1], #1
  dmb ishst
  strb w3, [x0], #1
.Ldone:
  b .Lend

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

.Lend:
  mov x0, #0
  ret

  .inst ABORT_SIGNATURE
.Labort:
.Linterrupted:
  sub x1, x7, x0
  mov x0, #2
  ret

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
