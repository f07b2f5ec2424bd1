// Command gen writes the .pb.go files of the package above it. It compiles the
// .proto files itself, so that nobody needs protoc.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// importRoot is put before the file names: descriptors are registered under them
// in every program that links the package, and common.proto alone would collide.
const importRoot = "posthaste/v1/"

func main() {
	files, err := generate(context.Background(), ".")
	if err != nil {
		log.Fatalf("generate api/v1: %v", err)
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the generated files of the .proto files in dir, by their names.
func generate(ctx context.Context, dir string) (map[string][]byte, error) {
	req, err := compile(ctx, dir)
	if err != nil {
		return nil, err
	}
	in, err := proto.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("request of the generator: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go")
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("protoc-gen-go: %w", err)
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &resp); err != nil {
		return nil, fmt.Errorf("answer of protoc-gen-go: %w", err)
	}
	if resp.Error != nil {
		return nil, fmt.Errorf("protoc-gen-go: %s", resp.GetError())
	}
	files := make(map[string][]byte, len(resp.File))
	for _, f := range resp.File {
		files[path.Base(f.GetName())] = []byte(f.GetContent())
	}
	return files, nil
}

func compile(ctx context.Context, dir string) (*pluginpb.CodeGeneratorRequest, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.proto"))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = importRoot + filepath.Base(f)
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(name string) (io.ReadCloser, error) {
				file, ours := strings.CutPrefix(name, importRoot)
				if !ours {
					return nil, os.ErrNotExist
				}
				return os.Open(filepath.Join(dir, file))
			},
		}),
		// Comments become the comments of the Go types.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	req := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("paths=source_relative"),
	}
	seen := make(map[string]bool)
	for _, f := range compiled {
		req.ProtoFile = appendWithImports(req.ProtoFile, f, seen)
	}
	return req, nil
}

// appendWithImports adds a file after everything that it imports, as plugins want it.
func appendWithImports(to []*descriptorpb.FileDescriptorProto, f protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[f.Path()] {
		return to
	}
	seen[f.Path()] = true
	imports := f.Imports()
	for i := range imports.Len() {
		to = appendWithImports(to, imports.Get(i).FileDescriptor, seen)
	}
	return append(to, protoutil.ProtoFromFileDescriptor(f))
}
