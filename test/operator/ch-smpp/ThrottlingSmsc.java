import com.cloudhopper.commons.util.HexUtil;
import com.cloudhopper.commons.util.windowing.WindowFuture;
import com.cloudhopper.smpp.PduAsyncResponse;
import com.cloudhopper.smpp.SmppServerConfiguration;
import com.cloudhopper.smpp.SmppServerHandler;
import com.cloudhopper.smpp.SmppServerSession;
import com.cloudhopper.smpp.SmppSessionConfiguration;
import com.cloudhopper.smpp.impl.DefaultSmppServer;
import com.cloudhopper.smpp.impl.DefaultSmppSessionHandler;
import com.cloudhopper.smpp.pdu.*;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * An SMSC with a limit of parts per second, based on ch-smpp.
 *
 * <pre>java ThrottlingSmsc.java PORT PARTS_PER_SECOND STATUS</pre>
 *
 * Its limit is a token bucket that contains the parts of a quarter of a second. STATUS is the
 * answer above the limit: 88 (ESME_RTHROTTLED) or 20 (ESME_RMSGQFUL). A part to a number that ends
 * in 04 is accepted within the limit, and gets no response and no receipt. The program prints each
 * decision as one line of JSON, in order. It ends when its standard input is closed.
 */
public class ThrottlingSmsc {
  private static final String SILENT = "04";
  private static final int RECEIPT_DELAY_MS = 50;
  private static final int WINDOW = 1000;
  private static final int DEADLINE_MS = 10_000;
  private static final int REPEAT_MS = 1000;

  private final double limit;
  private final double capacity;
  private final int refusal;
  private final long startedAt = System.nanoTime();
  private final ScheduledExecutorService receipts = Executors.newScheduledThreadPool(4);
  private final List<SmppServerSession> sessions = new CopyOnWriteArrayList<>();
  private double tokens;
  private long refilledAt = startedAt;
  private long lastId = 0;

  private ThrottlingSmsc(double limit, int refusal) {
    this.limit = limit;
    this.refusal = refusal;
    capacity = Math.max(1, limit / 4);
    tokens = capacity;
  }

  /** Decides about a part and prints the decision. Returns the id of an accepted part, or null. */
  private synchronized String decide(SubmitSm submit) {
    long now = System.nanoTime();
    tokens = Math.min(capacity, tokens + (now - refilledAt) / 1e9 * limit);
    refilledAt = now;
    boolean accepted = tokens >= 1;
    if (accepted) tokens--;
    System.out.printf(
        "{\"at\":%d,\"to\":\"%s\",\"esm\":%d,\"content\":\"%s\",\"status\":%d}%n",
        (now - startedAt) / 1_000_000,
        submit.getDestAddress().getAddress(),
        submit.getEsmClass(),
        HexUtil.toHexString(submit.getShortMessage()).toLowerCase(),
        accepted ? 0 : refusal);
    return accepted ? "smsc-" + ++lastId : null;
  }

  private void report(SubmitSm submit, String id) {
    try {
      DeliverSm receipt = new DeliverSm();
      receipt.setSourceAddress(submit.getDestAddress());
      receipt.setDestAddress(submit.getSourceAddress());
      receipt.setEsmClass((byte) 0x04);
      receipt.setShortMessage(
          ("id:" + id + " sub:001 dlvrd:001 submit date:2611211200 done date:2611211200 stat:DELIVRD"
                  + " err:000 text:")
              .getBytes());
      WindowFuture<Integer, PduRequest, PduResponse> sent =
          sessions.get(0).sendRequestPdu(receipt, DEADLINE_MS, true);
      if (sent.isSuccess()) return;
      System.out.println("a receipt was not acknowledged");
    } catch (Exception error) {
      System.out.println("no receipt: " + error);
    }
    // Like every SMSC: the client may have closed the session meanwhile.
    receipts.schedule(() -> report(submit, id), REPEAT_MS, TimeUnit.MILLISECONDS);
  }

  private final class Session extends DefaultSmppSessionHandler {
    @Override
    public void fireExpectedPduResponseReceived(PduAsyncResponse response) {
      // The hub has acknowledged a receipt.
    }

    @Override
    public PduResponse firePduRequestReceived(PduRequest request) {
      PduResponse response = request.createResponse();
      if (!(request instanceof SubmitSm)) return response;
      SubmitSm submit = (SubmitSm) request;
      String id = decide(submit);
      if (id == null) {
        response.setCommandStatus(refusal);
        return response;
      }
      // Without a response object, ch-smpp does not respond.
      if (submit.getDestAddress().getAddress().endsWith(SILENT)) return null;
      ((SubmitSmResp) response).setMessageId(id);
      receipts.schedule(() -> report(submit, id), RECEIPT_DELAY_MS, TimeUnit.MILLISECONDS);
      return response;
    }
  }

  private final SmppServerHandler binds =
      new SmppServerHandler() {
        @Override
        public void sessionBindRequested(Long number, SmppSessionConfiguration configuration, BaseBind bind) {
          configuration.setWindowSize(WINDOW);
        }

        @Override
        public void sessionCreated(Long number, SmppServerSession session, BaseBindResp response) {
          sessions.add(session);
          session.serverReady(new Session());
        }

        @Override
        public void sessionDestroyed(Long number, SmppServerSession session) {
          sessions.remove(session);
          session.destroy();
        }
      };

  private void listen(int port) throws Exception {
    SmppServerConfiguration configuration = new SmppServerConfiguration();
    configuration.setHost("127.0.0.1");
    configuration.setPort(port);
    configuration.setSystemId("ch-smpp");
    configuration.setNonBlockingSocketsEnabled(true);
    configuration.setJmxEnabled(false);
    new DefaultSmppServer(configuration, binds, Executors.newCachedThreadPool()).start();
    System.out.println("{\"listens\":" + port + "}");
  }

  public static void main(String[] args) throws Exception {
    new ThrottlingSmsc(Double.parseDouble(args[1]), Integer.parseInt(args[2]))
        .listen(Integer.parseInt(args[0]));
    while (System.in.read() >= 0) continue;
    Runtime.getRuntime().halt(0);
  }
}
