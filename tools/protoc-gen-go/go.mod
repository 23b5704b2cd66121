module spate.dev/tools/protoc-gen-go

go 1.26.0

require google.golang.org/protobuf v1.36.11 // indirect

tool google.golang.org/protobuf/cmd/protoc-gen-go
