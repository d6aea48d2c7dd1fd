// Spring AI, apart from Java's other clients, as it has a version of OpenAI's of its own.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.messages.Message;
import org.springframework.ai.chat.messages.ToolResponseMessage;
import org.springframework.ai.chat.messages.UserMessage;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.model.MessageAggregator;
import org.springframework.ai.chat.prompt.Prompt;
import org.springframework.ai.openai.OpenAiChatModel;
import org.springframework.ai.openai.OpenAiChatOptions;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.definition.DefaultToolDefinition;
import org.springframework.ai.tool.definition.ToolDefinition;

public class Spring extends Loop {
  /** Only told of: the loop that calls it stands above a model. */
  record Weather(ToolDefinition definition) implements ToolCallback {
    @Override public ToolDefinition getToolDefinition() { return definition; }
    @Override public String call(String input) { return said; }
  }

  static Turn chat(String model) {
    try {
      ToolCallback tool = new Weather(new DefaultToolDefinition("weather", "The weather.", mapper.writeValueAsString(parameters)));
      OpenAiChatOptions options = OpenAiChatOptions.builder()
          .baseUrl(url + "/gateway/v1").apiKey(key).maxRetries(0).model(model).toolCallbacks(tool).build();
      OpenAiChatModel client = OpenAiChatModel.builder().options(options).build();
      List<Message> history = new ArrayList<>(List.of(new UserMessage("hi")));
      return stream -> {
        Prompt prompt = new Prompt(history, options);
        ChatResponse[] whole = new ChatResponse[1];
        if (stream) new MessageAggregator().aggregate(client.stream(prompt), answer -> whole[0] = answer).blockLast();
        else whole[0] = client.call(prompt);
        AssistantMessage message = whole[0].getResult().getOutput();
        Made made = new Made();
        made.text = message.getText() == null ? "" : message.getText();
        made.end = whole[0].getResult().getMetadata().getFinishReason();
        history.add(message);
        List<ToolResponseMessage.ToolResponse> results = new ArrayList<>();
        for (AssistantMessage.ToolCall call : message.getToolCalls()) {
          made.call(call.name(), call.arguments());
          results.add(new ToolResponseMessage.ToolResponse(call.id(), call.name(), said));
        }
        history.add(results.isEmpty()
            ? new UserMessage("and?") : ToolResponseMessage.builder().responses(results).build());
        return made;
      };
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }

  public static void main(String[] args) throws Exception {
    run(Map.of("spring-ai", Spring::chat));
  }
}
