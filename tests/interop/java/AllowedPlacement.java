import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.bookkeeper.client.BKException.BKNotEnoughBookiesException;
import org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy;
import org.apache.bookkeeper.net.BookieId;

/** Chooses at random among the bookies that the test allows, so that it knows where its ledgers lie. */
public class AllowedPlacement extends RackawareEnsemblePlacementPolicy {
    /** Shared by all clients of this process; null allows every bookie. */
    static volatile Set<String> allowed;

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
        return super.newEnsemble(ensemble, write, ack, custom, withForbidden(excluded));
    }

    @Override
    public PlacementResult<BookieId> replaceBookie(
            int ensemble, int write, int ack, Map<String, byte[]> custom,
            List<BookieId> current, BookieId replaced, Set<BookieId> excluded)
            throws BKNotEnoughBookiesException {
        return super.replaceBookie(ensemble, write, ack, custom, current, replaced, withForbidden(excluded));
    }

    private Set<BookieId> withForbidden(Set<BookieId> excluded) {
        Set<BookieId> all = new HashSet<>(excluded);
        Set<String> may = allowed;
        if (may != null) {
            known.stream().filter(bookie -> !may.contains(bookie.toString())).forEach(all::add);
        }
        return all;
    }
}
