import com.standardwebhooks.Webhook;
import com.standardwebhooks.exceptions.WebhookVerificationException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

public class Judge {
  public static void main(String[] arguments) throws Exception {
    for (var line : Files.readAllLines(Path.of(arguments[0]))) {
      var fields = line.split("\t", -1);
      var headers =
          Map.of(
              "webhook-id", List.of(fields[1]),
              "webhook-timestamp", List.of(fields[2]),
              "webhook-signature", List.of(fields[3]));
      try {
        new Webhook(fields[0]).verify(fields[4], headers);
        System.out.println(true);
      } catch (WebhookVerificationException refused) {
        System.out.println(false);
      }
    }
  }
}
