//! Azurite: Microsoft's emulator of Azure Blob Storage.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64ct::{Base64, Encoding as _};
use rustix::process::Signal;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::process::ServerProcess;
use crate::{fetch, ports, scratch};

/// The release on which the tests run.
pub const RELEASE: &str = "azurite=3.37.0";

/// An emulator with one container on 127.0.0.1; killed when dropped. Its data is in memory, so a restart loses it.
#[derive(Debug)]
pub struct AzuriteServer {
    process: Option<ServerProcess>,
    port: u16,
    folder: TempDir,
}

/// The name of the container.
pub const CONTAINER: &str = "locks";
/// The account of every emulator, from Microsoft's documentation.
pub const ACCOUNT: &str = "devstoreaccount1";
/// The key of this account.
pub const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

impl AzuriteServer {
    /// Starts an emulator, waits until it answers, and makes the container.
    pub fn start() -> Result<Self> {
        let mut server =
            Self { process: None, port: ports::free()?, folder: scratch::folder("azurite")? };
        server.launch()?;
        Ok(server)
    }

    /// `az://locks/PREFIX?emulator=127.0.0.1:port`.
    #[must_use]
    pub fn url(&self, prefix: &str) -> String {
        Self::url_at(self.port, prefix)
    }

    /// The URL of an emulator that is reached through another port.
    #[must_use]
    pub fn url_at(port: u16, prefix: &str) -> String {
        format!("az://{CONTAINER}/{prefix}?emulator=127.0.0.1:{port}")
    }

    /// The port, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context(NOT_RUNNING)?.kill()
    }

    /// Starts the emulator again, empty, on the same port. A running emulator is stopped first.
    pub fn restart(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            process.stop(Signal::TERM)?;
        }
        self.launch()
    }

    /// SIGSTOP: connections stay open, and requests get no answer.
    pub fn pause(&mut self) -> Result<()> {
        self.process.as_mut().context(NOT_RUNNING)?.pause()
    }

    /// SIGCONT.
    pub fn resume(&mut self) -> Result<()> {
        self.process.as_mut().context(NOT_RUNNING)?.resume()
    }

    fn launch(&mut self) -> Result<()> {
        let programs = fetch::programs(RELEASE)?.context("a folder of programs")?;
        let mut command = Command::new(programs.join("azurite-blob"));
        command
            .args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"])
            // Azurite calls home otherwise.
            .arg("--disableTelemetry")
            .args(["--blobHost", "127.0.0.1", "--blobPort", &self.port.to_string()])
            .current_dir(self.folder.path());
        let log = self.folder.path().join("server.log");
        let mut process = ServerProcess::spawn("azurite", command, &log)?;
        process.wait_until_ready(TIMEOUT, || Ok(self.make_container().is_ok()))?;
        self.process = Some(process);
        Ok(())
    }

    /// Makes the container, if it is missing: a request that the account signs.
    fn make_container(&self) -> Result<()> {
        // The emulator does not compare it with its clock.
        let headers = "x-ms-date:Sun, 01 Nov 2026 00:00:00 GMT\nx-ms-version:2021-08-06\n";
        let path = format!("/{ACCOUNT}/{CONTAINER}");
        let signed = format!("PUT{}{headers}/{ACCOUNT}{path}\nrestype:container", "\n".repeat(12));
        let signature = signature(&Base64::decode_vec(ACCOUNT_KEY)?, signed.as_bytes());
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(
            stream,
            "PUT {path}?restype=container HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\
             {}Authorization: SharedKey {ACCOUNT}:{}\r\n\r\n",
            headers.replace(':', ": ").replace(": 00: 00", ":00:00").replace('\n', "\r\n"),
            Base64::encode_string(&signature)
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        ensure!(matches!(status, "201" | "409"), "no container: {answer}");
        Ok(())
    }
}

/// HMAC with SHA-256, for a key of one block.
fn signature(key: &[u8], text: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

const NOT_RUNNING: &str = "this Azurite is not running";
const TIMEOUT: Duration = Duration::from_secs(90);
