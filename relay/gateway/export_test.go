package gateway

// ParseCallFrame parses a message of a client.
var ParseCallFrame = parseCallFrame
