import com.fasterxml.jackson.databind.ObjectMapper;
import hub.ApiClient;
import hub.ApiException;
import hub.api.BatchesApi;
import hub.api.EventsApi;
import hub.api.MessagesApi;
import hub.api.StatsApi;
import hub.model.BatchMessage;
import hub.model.BatchMessageVariablesValue;
import hub.model.BatchRequest;
import hub.model.Error;
import hub.model.SendRequest;
import java.util.List;
import java.util.Map;

/** A program that a user of the API might write with a client of openapi-generator. It prints its results. */
public class Program {
  static BatchMessage message(String to, String order, String clientRef) {
    return new BatchMessage()
        .to(to)
        .propertyClass(BatchMessage.PropertyClassEnum.SERVICE)
        .template("order_ready")
        .variables(Map.of("order", new BatchMessageVariablesValue(order)))
        .clientRef(clientRef);
  }

  static String codeOfUnknownBatch(BatchesApi batches) throws Exception {
    try {
      batches.batchesRead("bat_nothing");
      throw new Exception("there is no such batch");
    } catch (ApiException refused) {
      var error = new ObjectMapper().readValue(refused.getResponseBody(), Error.class);
      return refused.getCode() + " " + error.getError().getCode().getActualInstance();
    }
  }

  public static void main(String[] arguments) throws Exception {
    var client = new ApiClient();
    client.updateBaseUri(arguments[0]);
    client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + arguments[1]));
    var messages = new MessagesApi(client);

    var code = Map.of("code", new BatchMessageVariablesValue("4821"));
    var one =
        new SendRequest()
            .to("+79000000001")
            .propertyClass(SendRequest.PropertyClassEnum.OTP)
            .template("otp_code")
            .variables(code)
            .clientRef("java-1");
    var sent = messages.messagesSend(one, "java-1");
    var elements = List.of(message("+79000000001", "1", "java-2"), message("+7900", "2", "java-3"));
    var batch = messages.messagesSendBatch(new BatchRequest().messages(elements), null);
    var accepted = batch.getResults().get(0).getBatchResultAccepted();
    var rejected = batch.getResults().get(1).getBatchResultRejected();
    var read = messages.messagesRead(accepted.getMessage().getId());
    var events = new EventsApi(client).eventsList(10, null, null, List.of("message.accepted"), null, null);
    var stats = new StatsApi(client).statsRead(null, null, null);
    System.out.println(
        new ObjectMapper()
            .writeValueAsString(
                Map.of(
                    "sent", sent.getId(),
                    "accepted", batch.getCounts().getAccepted(),
                    "rejected", rejected.getError().getCode().getActualInstance(),
                    "read", read.getId().equals(accepted.getMessage().getId()),
                    "text", read.getText(),
                    "parts", read.getParts(),
                    "events", events.getData().size() > 0,
                    "stats", stats.getObject(),
                    "refused", codeOfUnknownBatch(new BatchesApi(client)))));
  }
}
