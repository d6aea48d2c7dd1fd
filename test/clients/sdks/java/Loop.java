// Reads questions (`Question` in `reader.ts`), a line each, and writes what a client made of the answers (`Answer`).

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

class Loop {
  static final ObjectMapper mapper = new ObjectMapper().setDefaultPropertyInclusion(JsonInclude.Include.NON_NULL);
  static final String key = System.getenv("TROUPE_KEY");
  static final String said = "sunny";
  static final Map<String, Object> properties = Map.of("city", Map.of("type", "string"));
  static final Map<String, Object> parameters =
      Map.of("type", "object", "properties", properties, "required", List.of("city"));
  static String url;

  /** One turn of a conversation, which it goes on with what it got. */
  interface Turn {
    Made ask(boolean stream) throws Throwable;
  }

  static class Made {
    public String text = "";
    public List<List<String>> calls = new ArrayList<>();
    public String end;
    public String tier;
    public String last;
    public String error;

    void call(String name, Object args) throws Exception {
      calls.add(List.of(name, args instanceof String written ? written : mapper.writeValueAsString(args)));
    }
  }

  /** @param clients by name, for a model */
  static void run(Map<String, Function<String, Turn>> clients) throws Exception {
    PrintStream out = System.out;
    // What the libraries say is no answer.
    System.setOut(System.err);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode question = mapper.readTree(line);
      url = question.path("url").asText(System.getenv("TROUPE_URL"));
      Made made;
      try {
        Turn turn = clients.get(question.get("client").asText()).apply(question.get("model").asText());
        boolean stream = question.get("stream").asBoolean();
        made = turn.ask(stream);
        if (question.path("again").asBoolean()) made = turn.ask(stream);
      } catch (Throwable error) {
        made = new Made();
        made.error = error.getClass().getName() + ": " + error.getMessage();
      }
      out.println(mapper.writeValueAsString(made));
      out.flush();
    }
    System.exit(0);
  }
}
