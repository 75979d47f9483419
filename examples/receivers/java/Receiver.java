import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A webhook receiver: verifies the signature, answers, and prints the events. Java 17, no libraries.
 *
 * <p>HUB_WEBHOOK_SECRET=whsec_... java Receiver.java
 */
public class Receiver {
  static final long TOLERANCE_SECONDS = 300;

  /** Whether a signature of the header matches the raw body and one of the secrets (two in a rotation). */
  static boolean isFromHub(byte[] body, String header, List<String> secrets, long now)
      throws GeneralSecurityException {
    var elements = Arrays.stream((header == null ? "" : header).split(",")).map(String::strip).toList();
    var times = elements.stream().filter(one -> one.startsWith("t=")).map(one -> one.substring(2)).toList();
    if (times.size() != 1 || !times.get(0).matches("0|[1-9][0-9]{0,11}")) return false;
    var given = elements.stream().filter(one -> one.matches("v1=[0-9a-f]{64}")).toList();
    var matches = false;
    for (var secret : secrets) {
      if (secret.isEmpty()) continue;
      var mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
      mac.update((times.get(0) + ".").getBytes(StandardCharsets.UTF_8));
      var hex = new StringBuilder("v1=");
      for (var one : mac.doFinal(body)) hex.append(String.format("%02x", one));
      var expected = hex.toString().getBytes(StandardCharsets.UTF_8);
      for (var signature : given) {
        // Compares in constant time.
        matches |= MessageDigest.isEqual(signature.getBytes(StandardCharsets.UTF_8), expected);
      }
    }
    return matches && Math.abs(now - Long.parseLong(times.get(0))) <= TOLERANCE_SECONDS;
  }

  static void receive(HttpExchange exchange) throws IOException {
    var body = exchange.getRequestBody().readAllBytes();
    var secrets = List.of(System.getenv().getOrDefault("HUB_WEBHOOK_SECRET", "").split(","));
    var header = exchange.getRequestHeaders().getFirst("Hub-Signature");
    boolean valid;
    try {
      valid = isFromHub(body, header, secrets, System.currentTimeMillis() / 1000);
    } catch (GeneralSecurityException error) {
      throw new IOException(error);
    }
    // Answer first, within ten seconds. Process the events afterwards, and drop known ids.
    exchange.sendResponseHeaders(valid ? 204 : 400, -1);
    exchange.close();
    // A program uses a JSON library here. Java has none.
    var event = Pattern.compile("\"id\":\"(evt_[^\"]+)\",\"object\":\"event\",\"type\":\"([^\"]+)\"");
    var found = event.matcher(valid ? new String(body, StandardCharsets.UTF_8) : "");
    while (found.find()) System.out.println(found.group(2) + " " + found.group(1));
  }

  public static void main(String[] arguments) throws IOException {
    var port = Integer.parseInt(System.getenv().getOrDefault("PORT", "3000"));
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext("/", Receiver::receive);
    server.start();
  }
}
