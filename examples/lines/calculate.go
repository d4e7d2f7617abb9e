package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// calculate computes an expression in which operators follow their operands.
func calculate(line string) (float64, error) {
	var stack []float64
	for _, word := range strings.Fields(line) {
		if n, err := strconv.ParseFloat(word, 64); err == nil {
			stack = append(stack, n)
			continue
		}
		top := len(stack) - 2
		if top < 0 {
			return 0, fmt.Errorf("%q has too little before it, or is no number", word)
		}
		a, b := stack[top], stack[top+1]
		switch stack = stack[:top+1]; word {
		case "+":
			stack[top] = a + b
		case "-":
			stack[top] = a - b
		case "*":
			stack[top] = a * b
		case "/":
			stack[top] = a / b
		default:
			return 0, fmt.Errorf("%q is neither number nor operator", word)
		}
	}
	if len(stack) != 1 {
		return 0, errors.New("one number has to be left, not " + strconv.Itoa(len(stack)))
	}
	return stack[0], nil
}
