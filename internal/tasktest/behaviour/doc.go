// Package behaviour tests what tasks, scopes, nurseries and futures do, as a program sees it.
package behaviour
