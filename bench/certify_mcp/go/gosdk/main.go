// A server on standard input and output with the official SDK for Go.
package main

import (
	"context"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"weir.test/certify/tools"
)

func main() {
	served := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil)
	for name, description := range tools.Named {
		tool := &mcp.Tool{Name: name, Description: description, InputSchema: tools.Schema()}
		served.AddTool(tool, func(_ context.Context, asked *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := tools.Run(asked.Params.Name, asked.Params.Arguments)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	if err := served.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
