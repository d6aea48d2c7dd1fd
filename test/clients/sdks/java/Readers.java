// Java's clients as readers of one answer.

import com.anthropic.client.okhttp.AnthropicOkHttpClient;
import com.anthropic.helpers.MessageAccumulator;
import com.anthropic.models.messages.ContentBlock;
import com.anthropic.models.messages.ContentBlockParam;
import com.anthropic.models.messages.Message;
import com.anthropic.models.messages.MessageCreateParams;
import com.anthropic.models.messages.Tool;
import com.anthropic.models.messages.ToolResultBlockParam;
import com.fasterxml.jackson.databind.JsonNode;
import com.google.genai.Client;
import com.google.genai.types.Candidate;
import com.google.genai.types.Content;
import com.google.genai.types.FunctionDeclaration;
import com.google.genai.types.GenerateContentConfig;
import com.google.genai.types.GenerateContentResponse;
import com.google.genai.types.HttpOptions;
import com.google.genai.types.Part;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseOutputItem;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.model.anthropic.AnthropicChatModel;
import dev.langchain4j.model.anthropic.AnthropicStreamingChatModel;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.json.JsonObjectSchema;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.googleai.GoogleAiGeminiChatModel;
import dev.langchain4j.model.googleai.GoogleAiGeminiStreamingChatModel;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

public class Readers extends Loop {
  /** It checks each answer whole, as typed code does. */
  static OpenAIClient openai() {
    return OpenAIOkHttpClient.builder()
        .baseUrl(url + "/gateway/v1").apiKey(key).maxRetries(0).responseValidation(true).build();
  }

  static Map<String, JsonValue> values(Map<String, Object> given) {
    Map<String, JsonValue> made = new LinkedHashMap<>();
    given.forEach((name, value) -> made.put(name, JsonValue.from(value)));
    return made;
  }

  static Turn chat(String model) {
    FunctionParameters declared = FunctionParameters.builder().additionalProperties(values(parameters)).build();
    ChatCompletionCreateParams.Builder asked = ChatCompletionCreateParams.builder()
        .model(model)
        .addUserMessage("hi")
        .addFunctionTool(FunctionDefinition.builder().name("weather").parameters(declared).build());
    OpenAIClient client = openai();
    return stream -> {
      ChatCompletion answer;
      if (stream) {
        ChatCompletionAccumulator accumulator = ChatCompletionAccumulator.create();
        try (var chunks = client.chat().completions().createStreaming(asked.build())) {
          chunks.stream().forEach(accumulator::accumulate);
        }
        answer = accumulator.chatCompletion();
      } else {
        answer = client.chat().completions().create(asked.build());
      }
      ChatCompletion.Choice choice = answer.choices().get(0);
      Made made = new Made();
      made.text = choice.message().content().orElse("");
      made.end = choice.finishReason().asString();
      made.tier = answer.serviceTier().map(tier -> tier.validate().asString()).orElse(null);
      asked.addMessage(choice.message());
      for (var called : choice.message().toolCalls().orElse(List.of())) {
        var call = called.asFunction();
        made.call(call.function().name(), call.function().arguments());
        asked.addMessage(ChatCompletionToolMessageParam.builder().toolCallId(call.id()).content(said).build());
      }
      if (made.calls.isEmpty()) asked.addUserMessage("and?");
      return made;
    };
  }

  static Turn responses(String model) {
    Map<String, Object> tool = Map.of("type", "function", "name", "weather", "parameters", parameters, "strict", false);
    List<Object> input = new ArrayList<>(List.of(Map.of("role", "user", "content", "hi")));
    OpenAIClient client = openai();
    return stream -> {
      ResponseCreateParams asked = ResponseCreateParams.builder()
          .model(model)
          .store(false)
          .putAdditionalBodyProperty("input", JsonValue.from(input))
          .putAdditionalBodyProperty("tools", JsonValue.from(List.of(tool)))
          .build();
      Response[] answered = new Response[1];
      if (stream) {
        try (var events = client.responses().createStreaming(asked)) {
          events.stream().forEach(event -> {
            event.error().ifPresent(error -> { throw new RuntimeException(error.message()); });
            event.failed().ifPresent(one -> { throw new RuntimeException(one.response().error().get().message()); });
            event.completed().ifPresent(one -> answered[0] = one.response());
            event.incomplete().ifPresent(one -> answered[0] = one.response());
          });
        }
      } else {
        answered[0] = client.responses().create(asked);
      }
      Response answer = answered[0];
      Made made = new Made();
      made.end = answer.status().get().asString();
      made.tier = answer.serviceTier().map(tier -> tier.validate().asString()).orElse(null);
      for (ResponseOutputItem item : answer.output()) {
        input.add(JsonValue.from(item));
        item.message().ifPresent(message -> message.content().forEach(part -> made.text += part.asOutputText().text()));
      }
      for (ResponseOutputItem item : answer.output()) {
        if (!item.isFunctionCall()) continue;
        var call = item.asFunctionCall();
        made.call(call.name(), call.arguments());
        input.add(Map.of("type", "function_call_output", "call_id", call.callId(), "output", said));
      }
      if (made.calls.isEmpty()) input.add(Map.of("role", "user", "content", "and?"));
      return made;
    };
  }

  static Turn messages(String model) {
    var client = AnthropicOkHttpClient.builder()
        .baseUrl(url + "/gateway").apiKey(key).maxRetries(0).responseValidation(true).build();
    Tool.InputSchema schema = Tool.InputSchema.builder()
        .putAdditionalProperty("properties", com.anthropic.core.JsonValue.from(properties))
        .addRequired("city")
        .build();
    MessageCreateParams.Builder asked = MessageCreateParams.builder()
        .model(model)
        .maxTokens(99)
        .addUserMessage("hi")
        .addTool(Tool.builder().name("weather").inputSchema(schema).build());
    return stream -> {
      Message answer;
      if (stream) {
        MessageAccumulator accumulator = MessageAccumulator.create();
        try (var events = client.messages().createStreaming(asked.build())) {
          events.stream().forEach(accumulator::accumulate);
        }
        answer = accumulator.message();
      } else {
        answer = client.messages().create(asked.build());
      }
      Made made = new Made();
      made.end = answer.stopReason().get().asString();
      List<ContentBlockParam> results = new ArrayList<>();
      for (ContentBlock block : answer.content()) {
        made.last = block.type().asString();
        block.text().ifPresent(text -> made.text += text.text());
        if (!block.isToolUse()) continue;
        var use = block.asToolUse();
        made.call(use.name(), mapper.writeValueAsString(use._input().convert(JsonNode.class)));
        results.add(ContentBlockParam.ofToolResult(
            ToolResultBlockParam.builder().toolUseId(use.id()).content(said).build()));
      }
      asked.addMessage(answer);
      if (results.isEmpty()) asked.addUserMessage("and?");
      else asked.addUserMessageOfContentBlockParams(results);
      return made;
    };
  }

  static Turn generate(String model) {
    Client client = Client.builder()
        .apiKey(key).httpOptions(HttpOptions.builder().baseUrl(url + "/gateway").build()).build();
    FunctionDeclaration declared =
        FunctionDeclaration.builder().name("weather").parametersJsonSchema(parameters).build();
    GenerateContentConfig config = GenerateContentConfig.builder()
        .tools(com.google.genai.types.Tool.builder().functionDeclarations(declared).build()).build();
    List<Content> contents = new ArrayList<>(List.of(Content.fromParts(Part.fromText("hi")).toBuilder().role("user").build()));
    return stream -> {
      List<GenerateContentResponse> answers = new ArrayList<>();
      if (stream) {
        try (var events = client.models.generateContentStream(model, contents, config)) {
          for (GenerateContentResponse event : events) answers.add(event);
        }
      } else {
        answers.add(client.models.generateContent(model, contents, config));
      }
      Made made = new Made();
      List<Part> parts = new ArrayList<>();
      List<Part> results = new ArrayList<>();
      for (GenerateContentResponse answer : answers) {
        Candidate candidate = answer.candidates().get().get(0);
        candidate.finishReason().ifPresent(reason -> made.end = reason.toString());
        parts.addAll(candidate.content().flatMap(Content::parts).orElse(List.of()));
      }
      for (Part part : parts) {
        if (!part.thought().orElse(false)) made.text += part.text().orElse("");
        if (part.functionCall().isEmpty()) continue;
        var call = part.functionCall().get();
        made.call(call.name().get(), call.args().orElse(Map.of()));
        results.add(Part.fromFunctionResponse(call.name().get(), Map.of("result", said)));
      }
      if (results.isEmpty()) results.add(Part.fromText("and?"));
      contents.add(Content.builder().role("model").parts(parts).build());
      contents.add(Content.builder().role("user").parts(results).build());
      return made;
    };
  }

  static Turn langchain(ChatModel whole, StreamingChatModel streamed) {
    JsonObjectSchema schema = JsonObjectSchema.builder().addStringProperty("city").required("city").build();
    ToolSpecification tool = ToolSpecification.builder().name("weather").parameters(schema).build();
    List<ChatMessage> history = new ArrayList<>(List.of(UserMessage.from("hi")));
    return stream -> {
      ChatRequest asked = ChatRequest.builder().messages(history).toolSpecifications(tool).build();
      ChatResponse answer;
      if (stream) {
        CompletableFuture<ChatResponse> done = new CompletableFuture<>();
        streamed.chat(asked, new StreamingChatResponseHandler() {
          @Override public void onPartialResponse(String text) {}
          @Override public void onCompleteResponse(ChatResponse response) { done.complete(response); }
          @Override public void onError(Throwable error) { done.completeExceptionally(error); }
        });
        try {
          answer = done.get();
        } catch (java.util.concurrent.ExecutionException failed) {
          throw failed.getCause();
        }
      } else {
        answer = whole.chat(asked);
      }
      AiMessage message = answer.aiMessage();
      Made made = new Made();
      made.text = message.text() == null ? "" : message.text();
      made.end = answer.finishReason() == null ? null : answer.finishReason().name();
      history.add(message);
      for (var call : message.toolExecutionRequests()) {
        // Its client of Messages writes them anew, with spaces.
        made.call(call.name(), whole instanceof AnthropicChatModel ? mapper.readTree(call.arguments()) : call.arguments());
        history.add(ToolExecutionResultMessage.from(call, said));
      }
      if (made.calls.isEmpty()) history.add(UserMessage.from("and?"));
      return made;
    };
  }

  static Turn langchainChat(String model) {
    return langchain(
        OpenAiChatModel.builder().baseUrl(url + "/gateway/v1").apiKey(key).modelName(model).maxRetries(0).build(),
        OpenAiStreamingChatModel.builder().baseUrl(url + "/gateway/v1").apiKey(key).modelName(model).build());
  }

  static Turn langchainMessages(String model) {
    return langchain(
        AnthropicChatModel.builder().baseUrl(url + "/gateway/v1").apiKey(key).modelName(model).maxRetries(0)
            .returnThinking(true).sendThinking(true).build(),
        AnthropicStreamingChatModel.builder().baseUrl(url + "/gateway/v1").apiKey(key).modelName(model)
            .returnThinking(true).sendThinking(true).build());
  }

  static Turn langchainGemini(String model) {
    return langchain(
        GoogleAiGeminiChatModel.builder().baseUrl(url + "/gateway/v1beta").apiKey(key).modelName(model).maxRetries(0).build(),
        GoogleAiGeminiStreamingChatModel.builder().baseUrl(url + "/gateway/v1beta").apiKey(key).modelName(model).build());
  }

  static final Map<String, Function<String, Turn>> clients = Map.of(
      "openai-java, chat", Readers::chat,
      "openai-java, Responses", Readers::responses,
      "anthropic-java", Readers::messages,
      "google-genai", Readers::generate,
      "langchain4j, chat", Readers::langchainChat,
      "langchain4j, Messages", Readers::langchainMessages,
      "langchain4j, Gemini", Readers::langchainGemini);

  public static void main(String[] args) throws Exception {
    run(clients);
  }
}
