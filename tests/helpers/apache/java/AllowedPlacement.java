import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.bookkeeper.client.BKException.BKNotEnoughBookiesException;
import org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy;
import org.apache.bookkeeper.net.BookieId;

/** Chooses at random among the bookies that the test allows, so that it knows where its ledgers lie. */
public class AllowedPlacement extends RackawareEnsemblePlacementPolicy {
    /** For new ensembles; shared by all clients of this process. Null allows every bookie. */
    static volatile Set<String> allowed;

    /** Those that may replace a failed one. */
    static volatile Set<String> spares;

    private volatile Set<BookieId> known = Set.of();

    @Override
    public Set<BookieId> onClusterChanged(Set<BookieId> writable, Set<BookieId> readOnly) {
        Set<BookieId> all = new HashSet<>(writable);
        all.addAll(readOnly);
        known = all;
        return super.onClusterChanged(writable, readOnly);
    }

    @Override
    public PlacementResult<List<BookieId>> newEnsemble(
            int ensemble, int write, int ack, Map<String, byte[]> custom, Set<BookieId> excluded)
            throws BKNotEnoughBookiesException {
        return super.newEnsemble(ensemble, write, ack, custom, with(excluded, allowed));
    }

    @Override
    public PlacementResult<BookieId> replaceBookie(
            int ensemble, int write, int ack, Map<String, byte[]> custom,
            List<BookieId> current, BookieId replaced, Set<BookieId> excluded)
            throws BKNotEnoughBookiesException {
        return super.replaceBookie(ensemble, write, ack, custom, current, replaced, with(excluded, spares));
    }

    /** What is excluded, and whatever a test does not allow. */
    private Set<BookieId> with(Set<BookieId> excluded, Set<String> may) {
        Set<BookieId> all = new HashSet<>(excluded);
        if (may != null) {
            known.stream().filter(bookie -> !may.contains(bookie.toString())).forEach(all::add);
        }
        return all;
    }
}
