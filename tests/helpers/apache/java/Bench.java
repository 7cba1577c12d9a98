import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.WriteHandle;

/** What Apache's client takes for the same work, in nanoseconds. */
final class Bench {
    private Bench() {}

    /** COUNT entries of SIZE bytes with at most IN_FLIGHT unanswered: the time until the last one is confirmed. */
    static String appends(LedgerHandle handle, int count, int size, int inFlight) throws Exception {
        byte[] payload = new byte[size];
        Semaphore room = new Semaphore(inFlight);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            room.acquire();
            handle.appendAsync(payload).whenComplete((entryId, error) -> {
                if (error != null) {
                    failure.set(error);
                }
                room.release();
            });
        }
        room.acquire(inFlight);
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return String.valueOf(System.nanoTime() - start);
    }

    /** Create and close COUNT ledgers of this ensemble one after another: the time of each pair. */
    static String creates(BookKeeper client, int count, int ensemble) throws Exception {
        List<String> times = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            WriteHandle handle = Commands.get(client.newCreateLedgerOp()
                    .withEnsembleSize(ensemble).withWriteQuorumSize(ensemble).withAckQuorumSize((ensemble + 1) / 2)
                    .withDigestType(DigestType.CRC32C).withPassword(new byte[0]).execute());
            handle.close();
            times.add(String.valueOf(System.nanoTime() - start));
        }
        return String.join(" ", times);
    }
}
