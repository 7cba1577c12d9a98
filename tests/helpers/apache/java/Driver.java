import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.bookkeeper.client.BKException;

/**
 * Drives Apache's client by lines on standard input: "ID VERB ARGUMENT…". Each gets one line as its answer, in any
 * order: "ID ok VALUE…" or "ID error CODE NAME MESSAGE…", where CODE is BookKeeper's, 1000 for any other exception.
 *
 * <p>Every command has a thread, so a long poll waits while others write. The process ends with its input.
 */
public final class Driver {
    private static final int OTHER_EXCEPTION = 1000;

    private Driver() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        // What libraries print must not look like an answer.
        System.setOut(System.err);
        Commands commands = new Commands();
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            threads.execute(() -> answer(out, words, commands));
        }
        // Clients have threads of their own that would go on for ever.
        Runtime.getRuntime().halt(0);
    }

    private static void answer(PrintStream out, String[] words, Commands commands) {
        String result;
        try {
            String value = commands.run(words[1], Arrays.copyOfRange(words, 2, words.length));
            result = value.isEmpty() ? "ok" : "ok " + value;
        } catch (Throwable error) {
            result = describe(error);
        }
        synchronized (out) {
            out.print(words[0] + " " + result + "\n");
            out.flush();
        }
    }

    private static String describe(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException)
                && cause.getCause() != null) {
            cause = cause.getCause();
        }
        int code = cause instanceof org.apache.bookkeeper.client.api.BKException known
                ? known.getCode()
                : OTHER_EXCEPTION;
        String name = code == OTHER_EXCEPTION ? cause.getClass().getSimpleName() : BKException.codeLogger(code).toString();
        return "error " + code + " " + name.replace(' ', '_') + " " + String.valueOf(cause.getMessage()).replace('\n', ' ');
    }
}
