//! etcd: a cluster of one or more members.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::install::{self, Program};
use crate::process::ServerProcess;
use crate::{ports, scratch, wait};

/// Options for a cluster.
#[derive(Clone, Debug, Default)]
pub struct EtcdBuilder {
    flags: Vec<String>,
    tls: Option<(PathBuf, PathBuf)>,
    is_durable: bool,
    programs: Option<PathBuf>,
}

impl EtcdBuilder {
    /// Passes a flag to each member, such as `--quota-backend-bytes=1000000`.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Serves clients over TLS with this certificate and key, both PEM files. Calls over HTTP need plain members.
    #[must_use]
    pub fn tls(mut self, certificate: &Path, key: &Path) -> Self {
        self.tls = Some((certificate.to_owned(), key.to_owned()));
        self
    }

    /// Runs the program in this folder, or that of the system.
    #[must_use]
    pub fn programs(self, programs: Option<PathBuf>) -> Self {
        Self { programs, ..self }
    }

    /// Waits for the disk with each write, as in production.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Starts so many members, and waits until they serve.
    pub fn start(self, members: usize) -> Result<EtcdCluster> {
        let member = |number| -> Result<Member> {
            let (port, peers) = (ports::free()?, ports::free()?);
            let folder = scratch::folder("etcd")?;
            let (process, is_paused, programs) = (None, false, self.programs.clone());
            Ok(Member { process, is_paused, number, port, peers, programs, folder })
        };
        let members = (0..members).map(member).collect::<Result<Vec<_>>>()?;
        let mut cluster = EtcdCluster { members, options: self, password: OnceLock::new() };
        for number in 0..cluster.members.len() {
            cluster.launch(number)?;
        }
        for number in 0..cluster.members.len() {
            cluster.wait_until_ready(number)?;
        }
        Ok(cluster)
    }
}

/// Members of an etcd cluster on 127.0.0.1; killed when dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Member>,
    options: EtcdBuilder,
    /// Of the user `root`, once there are users.
    password: OnceLock<String>,
}

#[derive(Debug)]
struct Member {
    /// The first field, so that the server is gone before its folder.
    process: Option<ServerProcess>,
    is_paused: bool,
    number: usize,
    port: u16,
    peers: u16,
    programs: Option<PathBuf>,
    folder: TempDir,
}

impl EtcdCluster {
    /// Options for a cluster.
    #[must_use]
    pub fn builder() -> EtcdBuilder {
        EtcdBuilder::default()
    }

    /// Starts a cluster with the default options.
    pub fn start(members: usize) -> Result<Self> {
        Self::builder().start(members)
    }

    /// `etcd://127.0.0.1:port,…` with all members, or `etcds://localhost:port,…` with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let (scheme, host) = match self.options.tls {
            None => ("etcd", "127.0.0.1"),
            Some(_) => ("etcds", "localhost"),
        };
        let members: Vec<_> =
            self.members.iter().map(|member| format!("{host}:{}", member.port)).collect();
        format!("{scheme}://{}", members.join(","))
    }

    /// The number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The port on which a member serves clients.
    #[must_use]
    pub fn port(&self, member: usize) -> u16 {
        self.members[member].port
    }

    /// The process id of a member.
    pub fn pid(&self, member: usize) -> Result<u32> {
        Ok(self.members[member].process.as_ref().context(NOT_RUNNING)?.pid())
    }

    /// SIGKILL.
    pub fn kill(&mut self, member: usize) -> Result<()> {
        let member = &mut self.members[member];
        member.is_paused = false;
        member.process.take().context(NOT_RUNNING)?.kill()
    }

    /// Starts a member again with its data, and waits until it serves. A running member is stopped first.
    pub fn restart(&mut self, member: usize) -> Result<()> {
        self.start_again(member)?;
        self.wait_until_ready(member)
    }

    /// As [`restart`](Self::restart), without the wait: a member without a quorum does not serve.
    pub fn start_again(&mut self, member: usize) -> Result<()> {
        if let Some(process) = self.members[member].process.take() {
            process.stop(Signal::TERM)?;
        }
        self.launch(member)
    }

    /// Starts another release of etcd as this member, with its data.
    pub fn upgrade(&mut self, member: usize, programs: Option<PathBuf>) -> Result<()> {
        self.members[member].programs = programs;
        self.restart(member)
    }

    /// Waits until the cluster as a whole is of this version, such as `3.6`: a member notices seconds after the last one.
    pub fn wait_for_version(&self, version: &str) -> Result<()> {
        let wanted = format!("\"etcdcluster\":\"{version}.");
        wait::until("the version of the cluster", TIMEOUT, || {
            Ok(self.http(0, "GET /version HTTP/1.0\r\n\r\n")?.contains(&wanted))
        })
    }

    /// SIGSTOP: connections stay open, and requests get no answer.
    pub fn pause(&mut self, member: usize) -> Result<()> {
        let member = &mut self.members[member];
        member.process.as_mut().context(NOT_RUNNING)?.pause()?;
        member.is_paused = true;
        Ok(())
    }

    /// SIGCONT.
    pub fn resume(&mut self, member: usize) -> Result<()> {
        let member = &mut self.members[member];
        member.process.as_mut().context(NOT_RUNNING)?.resume()?;
        member.is_paused = false;
        Ok(())
    }

    /// True if the member runs and is not stopped.
    #[must_use]
    pub fn is_awake(&self, member: usize) -> bool {
        self.members[member].process.is_some() && !self.members[member].is_paused
    }

    /// The number of the leader, as the members that are awake see it, once they agree on one that is awake.
    pub fn leader(&self) -> Result<usize> {
        let mut leader = None;
        wait::until("a leader", TIMEOUT, || {
            let mut seen = Vec::new();
            let mut ids = Vec::new();
            for number in (0..self.size()).filter(|number| self.is_awake(*number)) {
                let Ok(status) = self.post(number, "maintenance/status", "{}") else {
                    return Ok(false);
                };
                ids.push((number, field(&status, "member_id").unwrap_or_default()));
                seen.push(field(&status, "leader").unwrap_or_default());
            }
            seen.dedup();
            leader = match &seen[..] {
                [one] => ids.iter().find(|(_, id)| id == one).map(|(number, _)| *number),
                _ => None,
            };
            Ok(leader.is_some())
        })?;
        leader.context("a leader")
    }

    /// Moves the leadership to another member.
    pub fn move_leader(&self) -> Result<()> {
        let leader = self.leader()?;
        let other = (0..self.size()).find(|number| *number != leader && self.is_awake(*number));
        let status = self.post(other.context("another member")?, "maintenance/status", "{}")?;
        let id = field(&status, "member_id").context("an id")?;
        self.post(leader, "maintenance/transfer-leadership", &format!(r#"{{"targetID":"{id}"}}"#))?;
        Ok(())
    }

    /// Compacts the history up to now.
    pub fn compact(&self, member: usize) -> Result<()> {
        let status = self.post(member, "maintenance/status", "{}")?;
        let revision = field(&status, "revision").context("a revision")?;
        self.post(
            member,
            "kv/compaction",
            &format!(r#"{{"revision":"{revision}","physical":true}}"#),
        )?;
        Ok(())
    }

    /// Compacts and defragments a full database, and ends the alarm.
    pub fn make_room(&self) -> Result<()> {
        // Compaction fails if there was no write since the last one.
        let _ = self.compact(0);
        for member in 0..self.size() {
            self.post(member, "maintenance/defragment", "{}")?;
        }
        // An alarm ends for the member that it names.
        let alarms = self.post(0, "maintenance/alarm", "{}")?;
        for member in alarms.split("\"memberID\":\"").skip(1) {
            let id = member.split('"').next().unwrap_or_default();
            let end = format!(r#"{{"action":"DEACTIVATE","memberID":"{id}","alarm":"NOSPACE"}}"#);
            self.post(0, "maintenance/alarm", &end)?;
        }
        Ok(())
    }

    /// Makes a user `root` with this password, and turns users on.
    pub fn enable_users(&self, password: &str) -> Result<()> {
        let user = user(password);
        self.post(0, "auth/user/add", &user)?;
        self.post(0, "auth/role/add", r#"{"name":"root"}"#)?;
        self.post(0, "auth/user/grant", r#"{"user":"root","role":"root"}"#)?;
        self.post(0, "auth/enable", "{}")?;
        self.password.set(password.to_owned()).ok().context("users already")
    }

    /// As [`post`](Self::post) to the first member, as the user `root` after [`enable_users`](Self::enable_users).
    pub fn post_as_root(&self, path: &str, json: &str) -> Result<String> {
        let Some(password) = self.password.get() else { return self.post(0, path, json) };
        let login = self.post(0, "auth/authenticate", &user(password))?;
        self.post_as(0, path, json, Some(&field(&login, "token").context("a token")?))
    }

    /// A process of etcd that passes requests on to the members: `gateway`, which passes connections on, or `grpc-proxy`.
    pub fn behind(&self, kind: &'static str) -> Result<EtcdProxy> {
        let (port, folder) = (ports::free()?, scratch::folder(kind)?);
        let members: Vec<_> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        let mut command = Command::new(install::require(&SERVER)?);
        command.args([kind, "start", &format!("--endpoints={}", members.join(","))]);
        command.arg(format!("--listen-addr=127.0.0.1:{port}")).env_clear();
        if kind == "grpc-proxy" {
            command.arg(format!("--advertise-client-url=127.0.0.1:{port}"));
        }
        command.current_dir(folder.path());
        let log = folder.path().join("server.log");
        let mut process = ServerProcess::spawn("etcd", command, &log)?;
        process.wait_until_ready(TIMEOUT, || Ok(ports::is_served(port)))?;
        Ok(EtcdProxy { _process: process, port, _folder: folder })
    }

    /// Calls a member over HTTP, with and for JSON: `kv/range`, and so on.
    pub fn post(&self, member: usize, path: &str, json: &str) -> Result<String> {
        self.post_as(member, path, json, None)
    }

    fn post_as(
        &self,
        member: usize,
        path: &str,
        json: &str,
        token: Option<&str>,
    ) -> Result<String> {
        let mut head = format!("POST /v3/{path} HTTP/1.0\r\nContent-Length: {}\r\n", json.len());
        if let Some(token) = token {
            write!(head, "Authorization: {token}\r\n")?;
        }
        self.ask(member, &format!("{head}\r\n{json}"))
    }

    /// How many calls that read or write records a member has answered.
    pub fn calls(&self, member: usize) -> Result<u64> {
        let metrics = self.ask(member, "GET /metrics HTTP/1.0\r\n\r\n")?;
        let answered = metrics.lines().filter(|line| {
            line.starts_with("grpc_server_handled_total") && line.contains("etcdserverpb.KV\"")
        });
        answered.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?)).sum()
    }

    /// The body of the answer to a request over HTTP.
    fn ask(&self, member: usize, request: &str) -> Result<String> {
        let answer = self.http(member, request)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer with a head")?;
        ensure!(head.contains(" 200 "), "{body}");
        Ok(body.to_owned())
    }

    fn http(&self, member: usize, request: &str) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port(member)))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn launch(&mut self, number: usize) -> Result<()> {
        let peers =
            |member: &Member| format!("m{}=http://127.0.0.1:{}", member.number, member.peers);
        let all: Vec<_> = self.members.iter().map(peers).collect();
        let member = &mut self.members[number];
        let clients = match &self.options.tls {
            None => format!("http://127.0.0.1:{}", member.port),
            Some(_) => format!("https://127.0.0.1:{}", member.port),
        };
        let own_peers = format!("http://127.0.0.1:{}", member.peers);
        let folder = member.folder.path();
        let mut command = Command::new(install::require_in(member.programs.as_deref(), &SERVER)?);
        command
            .current_dir(folder)
            .arg(format!("--name=m{number}"))
            .arg(format!("--data-dir={}", folder.join("data").display()))
            .arg(format!("--listen-client-urls={clients}"))
            .arg(format!("--advertise-client-urls={clients}"))
            .arg(format!("--listen-peer-urls={own_peers}"))
            .arg(format!("--initial-advertise-peer-urls={own_peers}"))
            .arg(format!("--initial-cluster={}", all.join(",")))
            // An election takes a quarter of the usual time, and a busy machine causes none.
            .args([
                "--bcrypt-cost=4",
                "--heartbeat-interval=50",
                "--election-timeout=500",
                "--log-level=warn",
            ])
            // Debian's package sets these for its own service.
            .env_clear()
            .args(&self.options.flags);
        if !self.options.is_durable {
            command.arg("--unsafe-no-fsync");
        }
        if let Some((certificate, key)) = &self.options.tls {
            command.arg(format!("--cert-file={}", certificate.display()));
            command.arg(format!("--key-file={}", key.display()));
        }
        let log = folder.join("server.log");
        member.process = Some(ServerProcess::spawn("etcd", command, &log)?);
        member.is_paused = false;
        Ok(())
    }

    fn wait_until_ready(&mut self, number: usize) -> Result<()> {
        let mut process = self.members[number].process.take().context(NOT_RUNNING)?;
        let ready = process.wait_until_ready(TIMEOUT, || {
            if self.options.tls.is_some() {
                let port = self.port(number);
                return Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
            }
            // A read that the cluster has to agree on; with users it is refused once the member serves.
            let read = self.post(number, "kv/range", r#"{"key":"AA=="}"#);
            Ok(read.map_or_else(|error| error.to_string().contains("user name"), |_| true))
        });
        self.members[number].process = Some(process);
        ready
    }
}

/// A [process](EtcdCluster::behind) before the members; killed when dropped.
#[derive(Debug)]
pub struct EtcdProxy {
    _process: ServerProcess,
    port: u16,
    _folder: TempDir,
}

impl EtcdProxy {
    /// The port on which it serves clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn user(password: &str) -> String {
    format!(r#"{{"name":"root","password":"{password}"}}"#)
}

/// The text of a field in an answer of etcd, whose numbers are texts.
fn field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

const SERVER: Program = Program {
    names: &["etcd"],
    folders: &[],
    package: "etcd-server",
    otherwise: "install etcd 3.4 or newer, so that etcd is on PATH: https://github.com/etcd-io/etcd/releases",
};

const NOT_RUNNING: &str = "this member of etcd is not running";
const TIMEOUT: Duration = Duration::from_secs(60);
