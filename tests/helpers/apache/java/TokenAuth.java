import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.bookkeeper.auth.AuthCallbacks.GenericCallback;
import org.apache.bookkeeper.auth.AuthToken;
import org.apache.bookkeeper.auth.ClientAuthProvider;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.proto.ClientConnectionPeer;

/** A client that wants to authenticate before anything else; one round with a token. */
public class TokenAuth implements ClientAuthProvider.Factory {
    @Override
    public void init(ClientConfiguration settings) throws IOException {}

    @Override
    public String getPluginName() {
        return "token";
    }

    @Override
    public ClientAuthProvider newProvider(ClientConnectionPeer peer, GenericCallback<Void> completed) {
        return new ClientAuthProvider() {
            @Override
            public void init(GenericCallback<AuthToken> send) {
                AuthToken token = AuthToken.wrap("open sesame".getBytes(StandardCharsets.US_ASCII));
                send.operationComplete(BKException.Code.OK, token);
            }

            @Override
            public void process(AuthToken answer, GenericCallback<AuthToken> send) {
                completed.operationComplete(BKException.Code.OK, null);
            }
        };
    }
}
