// The watched system call for AArch64 (AAPCS64): x0 = number, x1 = six arguments, x2 = the thread's watch
// (interruption.h); x0 = the kernel's answer, or -4096 when the thread was interrupted before.
#if defined(__aarch64__)

// What the kernel asks of the place where it puts an interrupted thread (rseq(2)).
#define ABORT_SIGNATURE 0xd428bc00

  .section .data.rel.ro, "aw"
  .p2align 5
  .globl verbatim_call_sequence
  .hidden verbatim_call_sequence
  .type verbatim_call_sequence, %object
verbatim_call_sequence:
  .word 0, 0
  .xword .Lbegin, .Lend - .Lbegin, .Linterrupted
  .size verbatim_call_sequence, .-verbatim_call_sequence

  .text
  .p2align 4
  .globl verbatim_watched_call
  .hidden verbatim_watched_call
  .type verbatim_watched_call, %function
verbatim_watched_call:
  .cfi_startproc
  mov x8, x0
  mov x9, x1
  mov x10, x2
  adrp x6, verbatim_call_sequence
  add x6, x6, :lo12:verbatim_call_sequence
  ldp x0, x1, [x9]
  ldp x2, x3, [x9, #16]
  ldp x4, x5, [x9, #32]
.Lbegin:
  ldr x7, [x10]
  cmp x7, x6
  b.ne .Linterrupted
  svc #0
.Lend:
  ret

  .inst ABORT_SIGNATURE
.Linterrupted:
  mov x0, #-4096
  ret
  .cfi_endproc
  .size verbatim_watched_call, .-verbatim_watched_call

#endif

  .section .note.GNU-stack, "", %progbits
