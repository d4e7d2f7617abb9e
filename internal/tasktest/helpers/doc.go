// Package helpers tests the tasks that packages of this module start in a nursery of their
// user: they do not count against its limit.
package helpers
