// Package threads tests tasks on locked threads: every case of the table in design 006.
package threads
