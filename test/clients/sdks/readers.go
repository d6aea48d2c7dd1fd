// Go's clients as readers of one answer: each line of the input is a question (`Question` in `reader.ts`), each line of the output
// what the client made of the answer to it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicOption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

type question struct {
	Client, Model, Url string
	Stream, Again      bool
}

type made struct {
	Text  string      `json:"text"`
	Calls [][2]string `json:"calls"`
	End   string      `json:"end"`
	Tier  string      `json:"tier,omitempty"`
	Last  string      `json:"last,omitempty"`
	Error string      `json:"error,omitempty"`
}

// One turn of a conversation, which it goes on with what it got.
type ask func(stream bool) (made, error)

var (
	ctx        = context.Background()
	url, key   = os.Getenv("TROUPE_URL"), os.Getenv("TROUPE_KEY")
	properties = map[string]any{"city": map[string]any{"type": "string"}}
	parameters = map[string]any{"type": "object", "properties": properties, "required": []string{"city"}}
)

func chat(model string) ask {
	client := openai.NewClient(option.WithBaseURL(url+"/gateway/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	asked := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
		Tools: []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather", Parameters: parameters}),
		},
	}
	return func(stream bool) (made, error) {
		var answer openai.ChatCompletion
		if stream {
			events := client.Chat.Completions.NewStreaming(ctx, asked)
			accumulator := openai.ChatCompletionAccumulator{}
			for events.Next() {
				if !accumulator.AddChunk(events.Current()) {
					return made{}, fmt.Errorf("a chunk that does not fit")
				}
			}
			if events.Err() != nil {
				return made{}, events.Err()
			}
			answer = accumulator.ChatCompletion
		} else {
			got, err := client.Chat.Completions.New(ctx, asked)
			if err != nil {
				return made{}, err
			}
			answer = *got
		}
		choice := answer.Choices[0]
		result := made{Text: choice.Message.Content, End: choice.FinishReason, Tier: string(answer.ServiceTier)}
		asked.Messages = append(asked.Messages, choice.Message.ToParam())
		for _, call := range choice.Message.ToolCalls {
			result.Calls = append(result.Calls, [2]string{call.Function.Name, call.Function.Arguments})
			asked.Messages = append(asked.Messages, openai.ToolMessage("sunny", call.ID))
		}
		if len(result.Calls) == 0 {
			asked.Messages = append(asked.Messages, openai.UserMessage("and?"))
		}
		return result, nil
	}
}

func respond(model string) ask {
	client := openai.NewClient(option.WithBaseURL(url+"/gateway/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	input := []json.RawMessage{json.RawMessage(`{"role":"user","content":"hi"}`)}
	return func(stream bool) (made, error) {
		asked := responses.ResponseNewParams{
			Model: model,
			Store: openai.Bool(false),
			Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", parameters, false)},
		}
		var answer responses.Response
		if stream {
			events := client.Responses.NewStreaming(ctx, asked, option.WithJSONSet("input", input))
			for events.Next() {
				switch event := events.Current(); event.Type {
				case "error":
					return made{}, fmt.Errorf("%s", event.Message)
				case "response.failed":
					return made{}, fmt.Errorf("%s", event.Response.Error.Message)
				case "response.completed", "response.incomplete":
					answer = event.Response
				}
			}
			if events.Err() != nil {
				return made{}, events.Err()
			}
		} else {
			got, err := client.Responses.New(ctx, asked, option.WithJSONSet("input", input))
			if err != nil {
				return made{}, err
			}
			answer = *got
		}
		result := made{Text: answer.OutputText(), End: string(answer.Status), Tier: string(answer.ServiceTier)}
		for _, item := range answer.Output {
			input = append(input, json.RawMessage(item.RawJSON()))
		}
		for _, item := range answer.Output {
			if item.Type == "function_call" {
				result.Calls = append(result.Calls, [2]string{item.Name, item.Arguments.OfString})
				output, _ := json.Marshal(map[string]string{"type": "function_call_output", "call_id": item.CallID, "output": "sunny"})
				input = append(input, output)
			}
		}
		if len(result.Calls) == 0 {
			input = append(input, json.RawMessage(`{"role":"user","content":"and?"}`))
		}
		return result, nil
	}
}

func messages(model string) ask {
	client := anthropic.NewClient(anthropicOption.WithBaseURL(url+"/gateway"), anthropicOption.WithAPIKey(key), anthropicOption.WithMaxRetries(0))
	schema := anthropic.ToolInputSchemaParam{Properties: properties, Required: []string{"city"}}
	asked := anthropic.MessageNewParams{
		Model:     model,
		MaxTokens: 99,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
		Tools:     []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(schema, "weather")},
	}
	return func(stream bool) (made, error) {
		answer := &anthropic.Message{}
		if stream {
			events := client.Messages.NewStreaming(ctx, asked)
			for events.Next() {
				if err := answer.Accumulate(events.Current()); err != nil {
					return made{}, err
				}
			}
			if events.Err() != nil {
				return made{}, events.Err()
			}
		} else {
			got, err := client.Messages.New(ctx, asked)
			if err != nil {
				return made{}, err
			}
			answer = got
		}
		result := made{End: string(answer.StopReason)}
		results := []anthropic.ContentBlockParamUnion{}
		for _, block := range answer.Content {
			result.Last = block.Type
			result.Text += block.Text
			if block.Type == "tool_use" {
				result.Calls = append(result.Calls, [2]string{block.Name, string(block.Input)})
				results = append(results, anthropic.NewToolResultBlock(block.ID, "sunny", false))
			}
		}
		if len(results) == 0 {
			results = append(results, anthropic.NewTextBlock("and?"))
		}
		asked.Messages = append(asked.Messages, answer.ToParam(), anthropic.NewUserMessage(results...))
		return result, nil
	}
}

func generate(model string) ask {
	contents := genai.Text("hi")
	declared := []*genai.FunctionDeclaration{{Name: "weather", ParametersJsonSchema: parameters}}
	config := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: declared}}}
	return func(stream bool) (made, error) {
		client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: url + "/gateway"}})
		if err != nil {
			return made{}, err
		}
		answers := []*genai.GenerateContentResponse{}
		if stream {
			for answer, err := range client.Models.GenerateContentStream(ctx, model, contents, config) {
				if err != nil {
					return made{}, err
				}
				answers = append(answers, answer)
			}
		} else {
			answer, err := client.Models.GenerateContent(ctx, model, contents, config)
			if err != nil {
				return made{}, err
			}
			answers = append(answers, answer)
		}
		result := made{}
		parts, results := []*genai.Part{}, []*genai.Part{}
		for _, answer := range answers {
			candidate := answer.Candidates[0]
			if candidate.FinishReason != "" {
				result.End = string(candidate.FinishReason)
			}
			if candidate.Content == nil {
				continue
			}
			for _, part := range candidate.Content.Parts {
				parts = append(parts, part)
				if !part.Thought {
					result.Text += part.Text
				}
				if call := part.FunctionCall; call != nil {
					args, _ := json.Marshal(call.Args)
					result.Calls = append(result.Calls, [2]string{call.Name, string(args)})
					results = append(results, genai.NewPartFromFunctionResponse(call.Name, map[string]any{"result": "sunny"}))
				}
			}
		}
		if len(results) == 0 {
			results = append(results, genai.NewPartFromText("and?"))
		}
		contents = append(contents, genai.NewContentFromParts(parts, "model"), genai.NewContentFromParts(results, "user"))
		return result, nil
	}
}

var clients = map[string]func(string) ask{
	"openai-go, chat":      chat,
	"openai-go, Responses": respond,
	"anthropic-sdk-go":     messages,
	"genai":                generate,
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked question
		json.Unmarshal(lines.Bytes(), &asked)
		url = os.Getenv("TROUPE_URL")
		if asked.Url != "" {
			url = asked.Url
		}
		turn := clients[asked.Client](asked.Model)
		got, err := turn(asked.Stream)
		if err == nil && asked.Again {
			got, err = turn(asked.Stream)
		}
		if got.Calls == nil {
			got.Calls = [][2]string{}
		}
		if err != nil {
			got.Error = err.Error()
		}
		line, _ := json.Marshal(got)
		fmt.Println(string(line))
	}
}
