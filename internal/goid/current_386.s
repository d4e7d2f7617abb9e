//go:build !spindle_noasm

#include "textflag.h"

// func Current() uintptr
TEXT ·Current(SB), NOSPLIT, $0-4
	MOVL (TLS), AX
	MOVL AX, ret+0(FP)
	RET
