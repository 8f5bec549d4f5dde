//! Google's Firestore emulator.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::install::{self, Program};
use crate::process::ServerProcess;
use crate::{ports, scratch};

/// A Firestore emulator on 127.0.0.1; killed when dropped. Its data is in memory, so a restart loses it.
#[derive(Debug)]
pub struct FirestoreEmulator {
    process: Option<ServerProcess>,
    port: u16,
    folder: TempDir,
}

impl FirestoreEmulator {
    /// Starts an emulator and waits until it answers.
    pub fn start() -> Result<Self> {
        let mut emulator =
            Self { process: None, port: ports::free()?, folder: scratch::folder("firestore")? };
        emulator.launch()?;
        Ok(emulator)
    }

    /// `127.0.0.1:port`, in the form of `FIRESTORE_EMULATOR_HOST`.
    #[must_use]
    pub fn host_port(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The port, which stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.process.as_ref().context(NOT_RUNNING)?.pid())
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

    /// A plain HTTP GET; returns the body. On a busy machine, the first answer of a kind takes many seconds.
    pub fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let host = self.host_port();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")?;

        let mut answer = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let count = answer.read_line(&mut head)?;
            ensure!(count > 0, "GET {path}: the answer ends in its head: {head}");
        }
        // The emulator never closes the connection, so the answer has no end to read to.
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.context("an answer without a length")?.parse()?];
        answer.read_exact(&mut body)?;
        let body = String::from_utf8(body)?;
        ensure!(head.starts_with("HTTP/1.1 200"), "GET {path}: {head}{body}");
        Ok(body)
    }

    fn launch(&mut self) -> Result<()> {
        let mut command = launcher(self.port)?;
        command.current_dir(self.folder.path());
        let log = self.folder.path().join("server.log");
        let mut process = ServerProcess::spawn("firestore-emulator", command, &log)?;
        process.wait_until_ready(TIMEOUT, || Ok(self.get("/").is_ok()))?;
        self.process = Some(process);
        Ok(())
    }
}

/// Java with the emulator's archive, if it is found: `gcloud` takes twice as long, and its process would stand
/// between this one and the process to kill.
fn launcher(port: u16) -> Result<Command> {
    let archive = match install::require_with(&EMULATOR, find_archive) {
        Ok(archive) => archive,
        Err(missing) => return through_gcloud(port).ok_or(missing),
    };
    let mut command = Command::new(install::require(&JAVA)?);
    command
        // An emulator lives for a minute or two, in which Java's second compiler costs more than it saves.
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        // The emulator has its messages in English only.
        .args(["-Duser.language=en", "-cp"])
        .arg(archive)
        .arg("com.google.cloud.datastore.emulator.firestore.CloudFirestore")
        .args(["--host=127.0.0.1".to_owned(), format!("--port={port}")]);
    Ok(command)
}

/// For an emulator in another folder of `gcloud`. If `gcloud` has none, its message becomes part of the error.
fn through_gcloud(port: u16) -> Option<Command> {
    let mut command = Command::new(install::find(&GCLOUD)?);
    command.args(["emulators", "firestore", "start"]).arg(format!("--host-port=127.0.0.1:{port}"));
    Some(command)
}

/// The emulator's archive, below the folder of the Google Cloud SDK.
fn find_archive() -> Option<PathBuf> {
    // …/google-cloud-sdk/bin/gcloud, which Debian's package links to from /usr/bin.
    let from_gcloud = install::find(&GCLOUD)
        .and_then(|gcloud| gcloud.canonicalize().ok())
        .and_then(|gcloud| Some(gcloud.parent()?.parent()?.to_owned()));
    ["/usr/lib/google-cloud-sdk", "/usr/share/google-cloud-sdk"]
        .map(PathBuf::from)
        .into_iter()
        .chain(from_gcloud)
        .map(|sdk| sdk.join("platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"))
        .find(|archive| archive.is_file())
}

const EMULATOR: Program = Program {
    names: &["the Firestore emulator"],
    folders: &[],
    package: "google-cloud-cli-firestore-emulator",
    otherwise: "gcloud components install cloud-firestore-emulator; \
                Debian's package is in Google's repository: https://cloud.google.com/sdk/docs/install#deb",
};

const GCLOUD: Program = Program { names: &["gcloud"], package: "google-cloud-cli", ..EMULATOR };

const JAVA: Program = Program {
    names: &["java"],
    folders: &[],
    package: "default-jre-headless",
    otherwise: "install Java 17 or newer, so that java is on PATH",
};

const NOT_RUNNING: &str = "this Firestore emulator is not running";
const TIMEOUT: Duration = Duration::from_secs(90);
