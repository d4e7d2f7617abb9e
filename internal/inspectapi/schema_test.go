package inspectapi_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDesignNamesEveryField: docs/design/023-inspect.md documents the whole schema.
func TestDesignNamesEveryField(t *testing.T) {
	var schema []byte
	for _, name := range []string{"schema.go", "streams.go", "recording.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		schema = append(schema, text...)
	}
	design, err := os.ReadFile("../../docs/design/023-inspect.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range regexp.MustCompile(`json:"([a-z0-9_]+)`).FindAllStringSubmatch(string(schema), -1) {
		if !strings.Contains(string(design), "`"+field[1]+"`") {
			t.Errorf("the design does not name the field %s", field[1])
		}
	}
}
