// The guarded copy for x86-64 (System V): rdi = to, rsi = from, rdx = length, rcx = the thread's watch (interruption.h);
// rax = 0 when all was copied, 2 when the thread was interrupted, with rdx = the bytes that were not copied.
// A leaf that never moves rsp: the signal handler can resume at the fix-up from any instruction of it.
//
// Stores are aligned to their own size (no store crosses a cache line, so none is seen in two halves), ascend, and
// never repeat a byte. x86 keeps stores in program order, and a string instruction in order with the stores around it.
// All but the last are string instructions, which store and count in one: wherever the thread is interrupted, rdi says
// exactly what has been stored.
#if defined(__x86_64__)

// Up to here everything ascends; beyond, the lines between the first and the last are copied in bulk.
#define SHORT 128

// What the kernel asks of the place where it puts an interrupted thread (rseq(2)).
#define ABORT_SIGNATURE 0x53053053

  .section .data.rel.ro, "aw"
  .p2align 5
  .globl verbatim_copy_sequence
  .hidden verbatim_copy_sequence
  .type verbatim_copy_sequence, @object
verbatim_copy_sequence:
  .long 0, 0
  .quad .Lbegin, .Lend - .Lbegin, .Labort
  .size verbatim_copy_sequence, .-verbatim_copy_sequence

  .p2align 3
  .globl verbatim_copy_unwatched
  .hidden verbatim_copy_unwatched
  .type verbatim_copy_unwatched, @object
verbatim_copy_unwatched:
  .quad verbatim_copy_sequence
  .size verbatim_copy_unwatched, .-verbatim_copy_unwatched

  .text
  .p2align 6
  .globl verbatim_guarded_copy
  .hidden verbatim_guarded_copy
  .type verbatim_guarded_copy, @function
verbatim_guarded_copy:
  .cfi_startproc
  leaq (%rdi,%rdx), %r8
  leaq verbatim_copy_sequence(%rip), %rax
.Lbegin:
  cmpq %rax, (%rcx)
  jne .Linterrupted
  cmpq $8, %rdx
  jne .Lnot_eight
  testb $7, %dil
  je .Leight

// Any length in ascending order.
.Lascend:
  testb $7, %dil
  jne .Lalign
.Laligned:
  cmpq $8, %rdx
  jb .Lbelow_eight
.Lwords:
  movsq
  subq $8, %rdx
  cmpq $8, %rdx
  jae .Lwords
.Lbelow_eight:
  testb $4, %dl
  je .Lbelow_four
  movsl
.Lbelow_four:
  testb $2, %dl
  je .Lbelow_two
  movsw
.Lbelow_two:
  testb $1, %dl
  je .Ldone
  movsb
.Ldone:
  jmp .Lend

// Ascends to a multiple of 8 if there are bytes enough; what is too little for that ends as aligned pieces anyway.
.Lalign:
  testb $1, %dil
  je .Lalign_two
  testq %rdx, %rdx
  je .Ldone
  movsb
  decq %rdx
.Lalign_two:
  testb $2, %dil
  je .Lalign_four
  cmpq $2, %rdx
  jb .Lbelow_eight
  movsw
  subq $2, %rdx
.Lalign_four:
  testb $4, %dil
  je .Laligned
  cmpq $4, %rdx
  jb .Lbelow_eight
  movsl
  subq $4, %rdx
  jmp .Laligned

.Lnot_eight:
  cmpq $SHORT, %rdx
  jbe .Lascend

// The first line ascending, the whole lines between in bulk, then the last line (1 to 64 bytes) ascending.
  testb $1, %dil
  je .Llong_two
  movsb
  decq %rdx
.Llong_two:
  testb $2, %dil
  je .Llong_four
  movsw
  subq $2, %rdx
.Llong_four:
  testb $4, %dil
  je .Lfirst_line
  movsl
  subq $4, %rdx
.Lfirst_line:
  movsq
  subq $8, %rdx
  testb $63, %dil
  jne .Lfirst_line

  leaq -1(%rdx), %rcx
  andq $-64, %rcx
  subq %rcx, %rdx
  rep movsb
  jmp .Laligned

// The last instruction of the sequence: whoever is interrupted later has been here.
.Leight:
  movq (%rsi), %rax
  movq %rax, (%rdi)
.Lend:
  xorl %eax, %eax
  ret

  .byte 0x0f, 0xb9, 0x3d  // an undefined instruction, with the signature as its operand
  .long ABORT_SIGNATURE
.Labort:
.Linterrupted:
  movq %r8, %rdx
  subq %rdi, %rdx
  movl $2, %eax
  ret

  .globl verbatim_guarded_copy_end
  .hidden verbatim_guarded_copy_end
verbatim_guarded_copy_end:

// The handler has put the faulting address into rdx, the second half of the result.
  .globl verbatim_guarded_copy_fixup
  .hidden verbatim_guarded_copy_fixup
verbatim_guarded_copy_fixup:
  movl $1, %eax
  ret
  .cfi_endproc
  .size verbatim_guarded_copy, .-verbatim_guarded_copy

#endif

  .section .note.GNU-stack, "", %progbits
