#!/usr/bin/env bash
# go-openai 1.43.0 (Go, github.com/sashabaranov/go-openai; eino's OpenAI component has a copy) gathers every line of a stream that is no
# `data:` line, and parses all of them together with an error that comes later: behind one comment (`: keep-alive`, as many servers send in a
# silence), the upstream's words are lost, and the caller reads "unexpected end of JSON input". So it is with an `event:` line before the data.
#
# Seen on 2026-11-28: without the comment "error, the model is gone", with it "unexpected end of JSON input".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	openai "github.com/sashabaranov/go-openai"
)

const begun = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}` + "\n\n"
const failed = `data: {"error":{"message":"the model is gone","type":"server_error","param":null,"code":null}}` + "\n\ndata: [DONE]\n\n"

func read(between string) error {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, begun+between+failed)
	}))
	defer server.Close()
	config := openai.DefaultConfig("k")
	config.BaseURL = server.URL
	asked := openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "hi"}}}
	stream, err := openai.NewClientWithConfig(config).CreateChatCompletionStream(context.Background(), asked)
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

func main() {
	fmt.Println("alone:", read(""))
	fmt.Println("behind a comment:", read(": keep-alive\n\n"))
	fmt.Println("behind an empty line:", read("\n\n"))
}
GO
go mod init ask > log 2>&1 && go get github.com/sashabaranov/go-openai@v1.43.0 >> log 2>&1 || { cat log >&2; exit 1; }
found=$(go run .)
echo "$found"
wanted="alone: error, the model is gone
behind a comment: unexpected end of JSON input
behind an empty line: error, the model is gone"
[ "$found" = "$wanted" ] || { echo "go-openai behaves otherwise now" >&2; exit 1; }
