package peers

import "embed"

// Sources are the programs in other languages: echo servers, and the
// callback and timer loops compared with `spindle bench`.
//
//go:embed c node python
var Sources embed.FS
