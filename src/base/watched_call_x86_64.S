// The watched system call for x86-64 (System V): rdi = number, rsi = six arguments, rdx = the thread's watch
// (interruption.h); rax = the kernel's answer, or -4096 when the thread was interrupted before.
#if defined(__x86_64__)

// What the kernel asks of the place where it puts an interrupted thread (rseq(2)).
#define ABORT_SIGNATURE 0x53053053

  .section .data.rel.ro, "aw"
  .p2align 5
  .globl verbatim_call_sequence
  .hidden verbatim_call_sequence
  .type verbatim_call_sequence, @object
verbatim_call_sequence:
  .long 0, 0
  .quad .Lbegin, .Lend - .Lbegin, .Linterrupted
  .size verbatim_call_sequence, .-verbatim_call_sequence

  .text
  .p2align 4
  .globl verbatim_watched_call
  .hidden verbatim_watched_call
  .type verbatim_watched_call, @function
verbatim_watched_call:
  .cfi_startproc
  movq %rdi, %rax
  movq %rdx, %rcx
  leaq verbatim_call_sequence(%rip), %r11
  movq (%rsi), %rdi
  movq 16(%rsi), %rdx
  movq 24(%rsi), %r10
  movq 32(%rsi), %r8
  movq 40(%rsi), %r9
  movq 8(%rsi), %rsi
.Lbegin:
  cmpq %r11, (%rcx)
  jne .Linterrupted
  syscall
.Lend:
  ret

  .byte 0x0f, 0xb9, 0x3d  // an undefined instruction, with the signature as its operand
  .long ABORT_SIGNATURE
.Linterrupted:
  movq $-4096, %rax
  ret
  .cfi_endproc
  .size verbatim_watched_call, .-verbatim_watched_call

#endif

  .section .note.GNU-stack, "", %progbits
