import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Date;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.jsmpp.PDUStringException;
import org.jsmpp.bean.*;
import org.jsmpp.extra.ProcessRequestException;
import org.jsmpp.session.*;
import org.jsmpp.session.connection.ServerConnection;
import org.jsmpp.session.connection.socket.ServerSocketConnection;
import org.jsmpp.session.connection.socket.ServerSocketConnectionFactory;
import org.jsmpp.util.DeliveryReceiptState;
import org.jsmpp.util.MessageId;

/**
 * An SMSC with a limit of parts per second, based on jsmpp.
 *
 * <pre>java ThrottlingSmsc.java PORT PARTS_PER_SECOND</pre>
 *
 * It counts the parts in each second of its clock, and throttles the parts above the limit
 * (ESME_RTHROTTLED). Ids are hexadecimal in responses and decimal in receipts. It prints each
 * answer as one line of JSON, in the order of its decisions. It ends when its standard input is
 * closed.
 */
public class ThrottlingSmsc {
  private static final int ESME_RTHROTTLED = 0x58;
  private static final int ESME_RINVCMDID = 0x03;
  private static final int RECEIPT_DELAY_MS = 50;
  private static final int BACKLOG = 50;

  private final int limit;
  private final long startedAt = System.nanoTime();
  private final ScheduledExecutorService receipts = Executors.newScheduledThreadPool(16);
  private long second = -1;
  private int acceptedInSecond = 0;
  private long lastId = 0x1000;

  private ThrottlingSmsc(int limit) {
    this.limit = limit;
  }

  private static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte one : bytes) text.append(String.format("%02x", one));
    return text.toString();
  }

  /** Decides about a part and prints the answer. Returns the id of an accepted part, or 0. */
  private synchronized long answer(SubmitSm submit) {
    long atMs = (System.nanoTime() - startedAt) / 1_000_000;
    if (atMs / 1000 != second) {
      second = atMs / 1000;
      acceptedInSecond = 0;
    }
    boolean accepted = acceptedInSecond < limit;
    if (accepted) acceptedInSecond++;
    System.out.printf(
        "{\"at\":%d,\"to\":\"%s\",\"esm\":%d,\"content\":\"%s\",\"status\":%d}%n",
        atMs,
        submit.getDestAddress(),
        submit.getEsmClass(),
        hex(submit.getShortMessage()),
        accepted ? 0 : ESME_RTHROTTLED);
    return accepted ? ++lastId : 0;
  }

  private void report(SMPPServerSession session, SubmitSm submit, long id) {
    try {
      Date now = new Date();
      DeliveryReceipt receipt =
          new DeliveryReceipt(
              Long.toString(id), 1, 1, now, now, DeliveryReceiptState.DELIVRD, "000", "");
      session.deliverShortMessage(
          "",
          TypeOfNumber.valueOf(submit.getDestAddrTon()),
          NumberingPlanIndicator.valueOf(submit.getDestAddrNpi()),
          submit.getDestAddress(),
          TypeOfNumber.valueOf(submit.getSourceAddrTon()),
          NumberingPlanIndicator.valueOf(submit.getSourceAddrNpi()),
          submit.getSourceAddr(),
          new ESMClass(MessageMode.DEFAULT, MessageType.SMSC_DEL_RECEIPT, GSMSpecificFeature.DEFAULT),
          (byte) 0,
          (byte) 0,
          new RegisteredDelivery(0),
          DataCodings.ZERO,
          receipt.toString().getBytes());
    } catch (Exception error) {
      System.out.println("no receipt: " + error);
    }
  }

  private final ServerMessageReceiverListener listener =
      new ServerMessageReceiverListener() {
        @Override
        public SubmitSmResult onAcceptSubmitSm(SubmitSm submit, SMPPServerSession session)
            throws ProcessRequestException {
          long id = answer(submit);
          if (id == 0) throw new ProcessRequestException("throttled", ESME_RTHROTTLED);
          receipts.schedule(() -> report(session, submit, id), RECEIPT_DELAY_MS, TimeUnit.MILLISECONDS);
          try {
            return new SubmitSmResult(new MessageId(Long.toHexString(id)), new OptionalParameter[0]);
          } catch (PDUStringException error) {
            throw new IllegalStateException(error);
          }
        }

        private ProcessRequestException unknown() {
          return new ProcessRequestException("not supported", ESME_RINVCMDID);
        }

        @Override
        public SubmitMultiResult onAcceptSubmitMulti(SubmitMulti submit, SMPPServerSession session)
            throws ProcessRequestException {
          throw unknown();
        }

        @Override
        public QuerySmResult onAcceptQuerySm(QuerySm query, SMPPServerSession session)
            throws ProcessRequestException {
          throw unknown();
        }

        @Override
        public void onAcceptReplaceSm(ReplaceSm replace, SMPPServerSession session)
            throws ProcessRequestException {
          throw unknown();
        }

        @Override
        public void onAcceptCancelSm(CancelSm cancel, SMPPServerSession session)
            throws ProcessRequestException {
          throw unknown();
        }

        @Override
        public BroadcastSmResult onAcceptBroadcastSm(BroadcastSm broadcast, SMPPServerSession session)
            throws ProcessRequestException {
          throw unknown();
        }

        @Override
        public void onAcceptCancelBroadcastSm(CancelBroadcastSm cancel, SMPPServerSession session)
            throws ProcessRequestException {
          throw unknown();
        }

        @Override
        public QueryBroadcastSmResult onAcceptQueryBroadcastSm(
            QueryBroadcastSm query, SMPPServerSession session) throws ProcessRequestException {
          throw unknown();
        }

        @Override
        public DataSmResult onAcceptDataSm(DataSm data, Session source) throws ProcessRequestException {
          throw unknown();
        }
      };

  private void listen(int port) throws Exception {
    SMPPServerSessionListener server =
        new SMPPServerSessionListener(
            port,
            new ServerSocketConnectionFactory() {
              @Override
              public ServerConnection listen(int port) throws IOException {
                return new ServerSocketConnection(
                    new ServerSocket(port, BACKLOG, InetAddress.getLoopbackAddress()));
              }
            });
    // One thread for each session decides in the order of arrival.
    server.setPduProcessorDegree(1);
    server.setMessageReceiverListener(listener);
    System.out.println("{\"listens\":" + port + "}");
    while (true) {
      SMPPServerSession session = server.accept();
      new Thread(
              () -> {
                try {
                  session.waitForBind(10_000).accept("jsmpp");
                } catch (Exception error) {
                  session.close();
                }
              })
          .start();
    }
  }

  public static void main(String[] args) throws Exception {
    Thread ending =
        new Thread(
            () -> {
              try {
                while (System.in.read() >= 0) continue;
              } catch (IOException error) {
                // The other end is gone as well.
              }
              Runtime.getRuntime().halt(0);
            });
    ending.setDaemon(true);
    ending.start();
    new ThrottlingSmsc(Integer.parseInt(args[1])).listen(Integer.parseInt(args[0]));
  }
}
