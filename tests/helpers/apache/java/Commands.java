import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.LedgerMetadataBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.versioning.Versioned;

/** The verbs. Bytes are hexadecimal, or "fill:N" for N bytes 0, 1 … 255, 0 …; "-" is an empty word. */
final class Commands {
    private static final long PATIENCE_S = 60;
    private static final int SHOWN_BYTES = 64;

    private final Map<String, BookKeeper> clients = new ConcurrentHashMap<>();
    private final Map<String, LedgerHandle> handles = new ConcurrentHashMap<>();
    private final AtomicInteger lastHandle = new AtomicInteger();

    String run(String verb, String[] words) throws Exception {
        switch (verb) {
            case "client": return client(words);
            case "close-client": clients.remove(words[0]).close(); return "";
            case "allow": allow(words); return "";
            case "create": return create(words);
            case "open": return open(words);
            case "add": return String.valueOf(handle(words).addEntry(bytes(words[1])));
            case "add-at": return String.valueOf(handle(words).addEntry(number(words[1]), bytes(words[2])));
            case "add-many": return addMany(handle(words), (int) number(words[1]));
            case "read": return shown(get(handle(words).readAsync(number(words[1]), number(words[2]))));
            case "read-unconfirmed": return shown(get(handle(words).readUnconfirmedAsync(number(words[1]), number(words[2]))));
            case "batch-read": return shown(get(handle(words).batchReadAsync(number(words[1]), (int) number(words[2]), number(words[3]))));
            case "lac": return String.valueOf(handle(words).getLastAddConfirmed());
            case "read-lac": return String.valueOf(handle(words).readLastConfirmed());
            case "try-read-lac": return String.valueOf(handle(words).tryReadLastConfirmed());
            case "explicit-lac": return String.valueOf(handle(words).readExplicitLastConfirmed());
            case "poll": return poll(handle(words), number(words[1]), number(words[2]));
            case "force": get(handle(words).force()); return "";
            case "close": handle(words).close(); return "";
            case "delete": clients.get(words[0]).deleteLedger(number(words[1])); return "";
            case "metadata": return described(get(clients.get(words[0]).getLedgerMetadata(number(words[1]))));
            case "rewrite": return rewrite(clients.get(words[0]), number(words[1]));
            case "info": return info(clients.get(words[0]));
            case "list": return list(clients.get(words[0]), number(words[1]), words[2]);
            case "bench": return Bench.appends(handle(words), (int) number(words[1]), (int) number(words[2]), (int) number(words[3]));
            case "bench-create": return Bench.creates(clients.get(words[0]), (int) number(words[1]), (int) number(words[2]));
            default: throw new IllegalArgumentException("no verb " + verb);
        }
    }

    // ---- clients

    /** NAME URI [KEY=VALUE…], the settings of ClientConfiguration. */
    private String client(String[] words) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri(words[1]);
        settings.setEnsemblePlacementPolicy(AllowedPlacement.class);
        for (String pair : Arrays.asList(words).subList(2, words.length)) {
            String[] parts = pair.split("=", 2);
            settings.setProperty(parts[0], parts[1]);
        }
        clients.put(words[0], new BookKeeper(settings));
        return "";
    }

    /** MEMBERS SPARES, ids with commas: bookies for new ensembles, and those that may replace others. "-" allows all. */
    private static void allow(String[] words) {
        AllowedPlacement.allowed = ids(words[0]);
        AllowedPlacement.spares = ids(words[1]);
    }

    private static Set<String> ids(String word) {
        return word.equals("-") ? null : new HashSet<>(Arrays.asList(word.split(",")));
    }

    /** CLIENT E WQ AQ DIGEST PASSWORD NAME=HEX,… | - [deferred]: handle, ledger id and first ensemble. */
    private String create(String[] words) throws Exception {
        var operation = clients.get(words[0]).newCreateLedgerOp()
                .withEnsembleSize((int) number(words[1]))
                .withWriteQuorumSize((int) number(words[2]))
                .withAckQuorumSize((int) number(words[3]))
                .withDigestType(DigestType.valueOf(words[4]))
                .withPassword(bytes(words[5]))
                .withCustomMetadata(custom(words[6]));
        if (words.length > 7 && words[7].equals("deferred")) {
            operation = operation.withWriteFlags(EnumSet.of(WriteFlag.DEFERRED_SYNC));
        }
        LedgerHandle handle = words.length > 7 && words[7].equals("advanced")
                ? (LedgerHandle) get(operation.makeAdv().execute())
                : (LedgerHandle) get(operation.execute());
        String ensemble = handle.getLedgerMetadata().getAllEnsembles().get(0L).stream()
                .map(BookieId::toString).collect(Collectors.joining(","));
        return keep(handle) + " " + handle.getId() + " " + ensemble;
    }

    /** CLIENT LEDGER DIGEST PASSWORD recover | look: handle, LAC, length. */
    private String open(String[] words) throws Exception {
        LedgerHandle handle = (LedgerHandle) get(clients.get(words[0]).newOpenLedgerOp()
                .withLedgerId(number(words[1]))
                .withDigestType(DigestType.valueOf(words[2]))
                .withPassword(bytes(words[3]))
                .withRecovery(words[4].equals("recover"))
                .execute());
        return keep(handle) + " " + handle.getLastAddConfirmed() + " " + handle.getLength();
    }

    private String keep(LedgerHandle handle) {
        String name = "h" + lastHandle.incrementAndGet();
        handles.put(name, handle);
        return name;
    }

    private LedgerHandle handle(String[] words) {
        return handles.get(words[0]);
    }

    // ---- entries

    /** So many entries at once, each with the payload that its id tells: the last id. */
    private static String addMany(LedgerHandle handle, int count) throws Exception {
        List<CompletableFuture<Long>> adds = new ArrayList<>();
        long first = handle.getLastAddPushed() + 1;
        for (long id = first; id < first + count; id++) {
            String payload = (id + ":").repeat(1 + (int) (id % 7));
            adds.add(handle.appendAsync(payload.getBytes(StandardCharsets.US_ASCII)));
        }
        long last = -1;
        for (CompletableFuture<Long> add : adds) {
            last = get(add);
        }
        return String.valueOf(last);
    }

    private static String shown(LedgerEntries entries) throws Exception {
        List<String> all = new ArrayList<>();
        try (entries) {
            entries.forEach(entry -> all.add(entry.getEntryId() + "=" + shown(entry.getEntryBytes())));
        }
        return String.join(" ", all);
    }

    private static String shown(byte[] payload) {
        if (payload.length <= SHOWN_BYTES) {
            return payload.length == 0 ? "-" : HexFormat.of().formatHex(payload);
        }
        try {
            byte[] digest = MessageDigest.getInstance("SHA-1").digest(payload);
            return payload.length + ":" + HexFormat.of().formatHex(digest);
        } catch (java.security.NoSuchAlgorithmException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** LAC, then the entry if one came with it. */
    private static String poll(LedgerHandle handle, long entryId, long timeoutMs) throws Exception {
        try (LastConfirmedAndEntry found =
                get(handle.readLastAddConfirmedAndEntryAsync(entryId, timeoutMs, false))) {
            String entry = found.hasEntry()
                    ? found.getEntry().getEntryId() + "=" + shown(found.getEntry().getEntryBytes())
                    : "-";
            return found.getLastAddConfirmed() + " " + entry;
        }
    }

    // ---- metadata and bookies

    private static String described(LedgerMetadata metadata) {
        String ensembles = metadata.getAllEnsembles().entrySet().stream()
                .map(each -> each.getKey() + "=" + each.getValue().stream().map(BookieId::toString).collect(Collectors.joining(",")))
                .collect(Collectors.joining(";"));
        String custom = metadata.getCustomMetadata().entrySet().stream()
                .map(each -> each.getKey() + "=" + HexFormat.of().formatHex(each.getValue()))
                .sorted().collect(Collectors.joining(","));
        return metadata.getState() + " " + metadata.getLastEntryId() + " " + metadata.getLength() + " " + ensembles
                + " " + (custom.isEmpty() ? "-" : custom) + " " + metadata.getDigestType();
    }

    /** Read, decode, encode and write the metadata, with nothing changed, as a handle does. */
    private static String rewrite(BookKeeper client, long ledgerId) throws Exception {
        Versioned<LedgerMetadata> found = get(client.getLedgerManager().readLedgerMetadata(ledgerId));
        get(client.getLedgerManager().writeLedgerMetadata(
                ledgerId, LedgerMetadataBuilder.from(found.getValue()).build(), found.getVersion()));
        return "";
    }

    private static String info(BookKeeper client) throws Exception {
        return client.getBookieInfo().entrySet().stream()
                .map(each -> each.getKey() + "=" + each.getValue().getTotalDiskSpace() + "/" + each.getValue().getFreeDiskSpace())
                .sorted().collect(Collectors.joining(" "));
    }

    private static String list(BookKeeper client, long ledgerId, String bookie) throws Exception {
        var entries = get(new BookKeeperAdmin(client).asyncGetListOfEntriesOfLedger(BookieId.parse(bookie), ledgerId));
        List<String> ids = new ArrayList<>();
        for (long id = 0; ids.size() < entries.getTotalNumOfAvailableEntries(); id++) {
            if (entries.isEntryAvailable(id)) {
                ids.add(String.valueOf(id));
            }
        }
        return ids.isEmpty() ? "-" : String.join(",", ids);
    }

    // ---- words

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private static byte[] bytes(String word) {
        if (word.startsWith("fill:")) {
            byte[] filled = new byte[(int) number(word.substring("fill:".length()))];
            for (int i = 0; i < filled.length; i++) {
                filled[i] = (byte) i;
            }
            return filled;
        }
        return word.equals("-") ? new byte[0] : HexFormat.of().parseHex(word);
    }

    private static Map<String, byte[]> custom(String word) {
        Map<String, byte[]> pairs = new HashMap<>();
        if (!word.equals("-")) {
            for (String pair : word.split(",")) {
                String[] parts = pair.split("=", 2);
                pairs.put(parts[0], bytes(parts[1]));
            }
        }
        return pairs;
    }

    static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(PATIENCE_S, TimeUnit.SECONDS);
    }
}
