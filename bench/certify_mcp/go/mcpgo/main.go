// A server on standard input and output with github.com/mark3labs/mcp-go.
package main

import (
	"context"
	"encoding/json"
	"log"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weir.test/certify/tools"
)

func main() {
	served := server.NewMCPServer("mcp-go", "1", server.WithToolCapabilities(false))
	for name, description := range tools.Named {
		tool := mcp.NewToolWithRawSchema(name, description, tools.Schema())
		served.AddTool(tool, func(_ context.Context, asked mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			raw, err := json.Marshal(asked.GetRawArguments())
			if err != nil {
				return nil, err
			}
			text, err := tools.Run(asked.Params.Name, raw)
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(text), nil
		})
	}
	if err := server.ServeStdio(served); err != nil {
		log.Fatal(err)
	}
}
