package peers

import "embed"

// Sources has the programs in other languages: echo servers, and the callback and timer
// loops that `spindle bench` is compared with.
//
//go:embed c node python
var Sources embed.FS
