package plan

import _ "embed"

//go:embed towpath.schema.json
var schema string

// Schema returns the JSON Schema of towpath.yaml, for editors and for whoever writes such files by program.
func Schema() []byte { return []byte(schema) }
