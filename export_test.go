package spindle

// PoolOf returns the pool of ctx, or nil.
var PoolOf = poolOf
