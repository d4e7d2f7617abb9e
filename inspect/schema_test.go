package inspect_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDesignNamesEveryField: docs/design/023-inspect.md documents the whole schema.
func TestDesignNamesEveryField(t *testing.T) {
	schema, err := os.ReadFile("schema.go")
	if err != nil {
		t.Fatal(err)
	}
	design, err := os.ReadFile("../docs/design/023-inspect.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range regexp.MustCompile(`json:"([a-z0-9_]+)`).FindAllStringSubmatch(string(schema), -1) {
		if !strings.Contains(string(design), "`"+field[1]+"`") {
			t.Errorf("the design does not name the field %s", field[1])
		}
	}
}
