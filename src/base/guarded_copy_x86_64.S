// The guarded copy for x86-64 (System V): rdi = to, rsi = from, rdx = length; rax = 0 when all was copied.
// A leaf that never moves rsp: the signal handler can resume at the fix-up from any instruction of it.
//
// Stores are aligned to their own size (no store crosses a cache line, so none is seen in two halves), ascend, and
// never repeat a byte. x86 keeps stores in program order, and a string instruction in order with the stores around it.
// The last 16 bytes go in pieces of at most 8: a 16-byte store is one store only where the processor has AVX.
#if defined(__x86_64__)

// Up to here everything ascends; beyond, the lines between the first and the last are copied in bulk.
#define SHORT 128
// From here on a string instruction is faster than 16-byte moves (bench/guarded_copy_bench.cc).
#define STRING 1024

  .text
  .p2align 6
  .globl verbatim_guarded_copy
  .hidden verbatim_guarded_copy
  .type verbatim_guarded_copy, @function
verbatim_guarded_copy:
  .cfi_startproc
  cmpq $8, %rdx
  jne .Lnot_eight
  testb $7, %dil
  jne .Lascend
  movq (%rsi), %rax
  movq %rax, (%rdi)
  xorl %eax, %eax
  ret

.Lnot_eight:
  cmpq $SHORT, %rdx
  ja .Llong

// Any length in ascending order.
.Lascend:
  testb $15, %dil
  jne .Lalign
.Laligned:
  cmpq $16, %rdx
  jbe .Llast
.Lsixteen:
  movups (%rsi), %xmm0
  movaps %xmm0, (%rdi)
  addq $16, %rsi
  addq $16, %rdi
  subq $16, %rdx
  cmpq $16, %rdx
  ja .Lsixteen

// The last 16 bytes or fewer, in pieces of 8, 4, 2, 1.
.Llast:
  subq $8, %rdx
  jb .Lbelow_eight
.Leight:
  movq (%rsi), %rax
  movq %rax, (%rdi)
  addq $8, %rsi
  addq $8, %rdi
  subq $8, %rdx
  jae .Leight
.Lbelow_eight:  // rdx is negative by now, its low three bits are still those of what is left
  testb $4, %dl
  je .Lbelow_four
  movl (%rsi), %eax
  movl %eax, (%rdi)
  addq $4, %rsi
  addq $4, %rdi
.Lbelow_four:
  testb $2, %dl
  je .Lbelow_two
  movzwl (%rsi), %eax
  movw %ax, (%rdi)
  addq $2, %rsi
  addq $2, %rdi
.Lbelow_two:
  testb $1, %dl
  je .Ldone
  movzbl (%rsi), %eax
  movb %al, (%rdi)
.Ldone:
  xorl %eax, %eax
  ret

// Ascends to a multiple of 16 if there are bytes enough; what is too little for that ends as aligned pieces anyway.
.Lalign:
  testb $1, %dil
  je .Lalign_two
  testq %rdx, %rdx
  je .Ldone
  movzbl (%rsi), %eax
  movb %al, (%rdi)
  incq %rsi
  incq %rdi
  decq %rdx
.Lalign_two:
  testb $2, %dil
  je .Lalign_four
  cmpq $2, %rdx
  jb .Llast
  movzwl (%rsi), %eax
  movw %ax, (%rdi)
  addq $2, %rsi
  addq $2, %rdi
  subq $2, %rdx
.Lalign_four:
  testb $4, %dil
  je .Lalign_eight
  cmpq $4, %rdx
  jb .Llast
  movl (%rsi), %eax
  movl %eax, (%rdi)
  addq $4, %rsi
  addq $4, %rdi
  subq $4, %rdx
.Lalign_eight:
  testb $8, %dil
  je .Laligned
  cmpq $8, %rdx
  jb .Llast
  movq (%rsi), %rax
  movq %rax, (%rdi)
  addq $8, %rsi
  addq $8, %rdi
  subq $8, %rdx
  jmp .Laligned

// The first line ascending, the whole lines between in bulk, then the last line (1 to 64 bytes) ascending.
.Llong:
  testb $15, %dil
  je .Lfirst_line
  testb $1, %dil
  je .Llong_two
  movzbl (%rsi), %eax
  movb %al, (%rdi)
  incq %rsi
  incq %rdi
  decq %rdx
.Llong_two:
  testb $2, %dil
  je .Llong_four
  movzwl (%rsi), %eax
  movw %ax, (%rdi)
  addq $2, %rsi
  addq $2, %rdi
  subq $2, %rdx
.Llong_four:
  testb $4, %dil
  je .Llong_eight
  movl (%rsi), %eax
  movl %eax, (%rdi)
  addq $4, %rsi
  addq $4, %rdi
  subq $4, %rdx
.Llong_eight:
  testb $8, %dil
  je .Lfirst_line
  movq (%rsi), %rax
  movq %rax, (%rdi)
  addq $8, %rsi
  addq $8, %rdi
  subq $8, %rdx
.Lfirst_line:
  movups (%rsi), %xmm0
  movaps %xmm0, (%rdi)
  addq $16, %rsi
  addq $16, %rdi
  subq $16, %rdx
  testb $63, %dil
  jne .Lfirst_line

  leaq -1(%rdx), %rcx
  andq $-64, %rcx
  je .Laligned
  subq %rcx, %rdx
  cmpq $STRING, %rcx
  jae .Lstring
.Lline:
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups 32(%rsi), %xmm2
  movups 48(%rsi), %xmm3
  movaps %xmm0, (%rdi)
  movaps %xmm1, 16(%rdi)
  movaps %xmm2, 32(%rdi)
  movaps %xmm3, 48(%rdi)
  addq $64, %rsi
  addq $64, %rdi
  subq $64, %rcx
  jne .Lline
  jmp .Laligned
.Lstring:
  rep movsb
  jmp .Laligned

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
