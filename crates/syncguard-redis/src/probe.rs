//! A probe that tells whether a port speaks TLS or plain text, for an error message that names the mistake.
//!
//! A TLS client on a plain port waits for ever, because Redis waits for the end of a line. A plain client on a TLS
//! port is cut off without an answer. Both look like a server that is away, and would be tried again for ever. So
//! if connecting fails or takes long, the server is asked in the other protocol.
//!
//! A proxy that ends the connection at a command of the driver looks like that, too. So it is asked whether it does.

use std::io;
use std::time::Duration;

use fred::types::config::Server;
use syncguard_core::{ErrorCode, LockError};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::error;

/// The longest time for an answer in the other protocol.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// Waits for `opening`, and returns an error that names the mistake if a server speaks the other protocol. The
/// servers are probed if opening fails, or if it takes longer than `patience`.
pub(crate) async fn open_or_explain<T>(
    servers: Vec<Server>,
    tls: bool,
    patience: Duration,
    opening: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let probe_later = async {
        sleep(patience).await;
        probe(&servers, tls).await
    };
    tokio::select! {
        biased;
        result = opening => match result {
            Err(error) if may_be_wrong_protocol(&error) => {
                Err(probe(&servers, tls).await.unwrap_or(error))
            }
            result => result,
        },
        Some(error) = probe_later => Err(error),
    }
}

/// Returns whether the wrong protocol may be the reason of the error.
fn may_be_wrong_protocol(error: &LockError) -> bool {
    matches!(
        error.code(),
        ErrorCode::ServiceUnavailable | ErrorCode::NetworkTimeout | ErrorCode::Internal
    )
}

/// The error if one of these servers answers in the other protocol.
async fn probe(servers: &[Server], tls: bool) -> Option<LockError> {
    // A Unix socket has no port.
    for server in servers.iter().filter(|server| server.port > 0) {
        if matches!(timeout(PROBE_TIMEOUT, answers_in(server, !tls)).await, Ok(Ok(true))) {
            return Some(error::wrong_protocol(tls));
        }
        if !tls && let Some(command) = refused_command(server).await {
            return Some(error::ends_at(command));
        }
    }
    None
}

/// The commands that fred sends first on each connection. It takes the end of the connection for an answer.
const FIRST: [&str; 2] = ["CLIENT ID", "INFO server"];

/// The first command at which the server ends the connection. A server that is being stopped does not do that twice.
async fn refused_command(server: &Server) -> Option<&'static str> {
    let mut found = None;
    for _ in 0..2 {
        let command = timeout(PROBE_TIMEOUT, ends_at(server)).await.ok()?.ok()??;
        if found.is_some_and(|found| found != command) {
            return None;
        }
        found = Some(command);
    }
    found
}

async fn ends_at(server: &Server) -> io::Result<Option<&'static str>> {
    let mut stream = BufReader::new(TcpStream::connect((&*server.host, server.port)).await?);
    let pong = ask(&mut stream, "PING").await?;
    if !pong.starts_with('+') && !pong.starts_with("-NOAUTH") {
        return Ok(None);
    }
    for command in FIRST {
        if !ask(&mut stream, command).await.is_ok_and(|line| line.ends_with('\n')) {
            return Ok(Some(command));
        }
    }
    Ok(None)
}

/// The first line of the answer to a command.
async fn ask(stream: &mut BufReader<TcpStream>, command: &str) -> io::Result<String> {
    let words: Vec<&str> = command.split(' ').collect();
    let texts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let request = format!("*{}\r\n{}", words.len(), texts.collect::<String>());
    stream.get_mut().write_all(request.as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    Ok(line)
}

/// Returns whether a server answers in TLS or, without `tls`, in plain text.
async fn answers_in(server: &Server, tls: bool) -> io::Result<bool> {
    let mut stream = TcpStream::connect((&*server.host, server.port)).await?;
    let question = if tls { client_hello() } else { b"PING\r\n".to_vec() };
    stream.write_all(&question).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    Ok(match answer {
        // A handshake or an alert, of TLS 1.0 or later.
        [0x15 | 0x16, 3] => tls,
        // PONG, or an error such as NOAUTH.
        [b'+' | b'-', _] => !tls,
        _ => false,
    })
}

/// The smallest `ClientHello` that every server answers, at least with an alert: TLS 1.2, two ciphers, no
/// extensions.
fn client_hello() -> Vec<u8> {
    const RANDOM: [u8; 32] = [0; 32];
    // A record of a handshake with 47 bytes; a `ClientHello` with 43 bytes; the version.
    const HEAD: [u8; 11] = [0x16, 3, 1, 0, 47, 1, 0, 0, 43, 3, 3];
    // No session; ECDHE with AES-128-GCM, for keys of ECDSA and of RSA; no compression.
    const TAIL: [u8; 9] = [0, 0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0];
    [&HEAD[..], &RANDOM, &TAIL].concat()
}
