//! etcd's own lock, if its server is installed.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{Measured, rows};
use crate::commands::Counter;
use crate::job::{Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;

const ROWS: [Row; 2] =
    [Row::new("64 in 1", &[Way::Etcd], 64), Row::new("16 in 4", &[Way::Etcd; 4], 16)];

pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let Ok(server) = Server::start() else {
        println!("\netcd: not installed");
        return Ok(());
    };
    if !cfg!(feature = "etcd") {
        println!("\netcd: its client is not built in: --features etcd, which needs protoc");
        return Ok(());
    }
    report.store("etcd");
    let store = Store::Etcd { url: server.url.clone() };
    rows(report, options, Measured { store: &store, counter: &Counter::None }, &ROWS, |_| None)
        .await
}

struct Server {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Result<Self> {
        // The port is free, unless another program is very quick.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let (client, peer) = (free()?, free()?);
        let [url, peer] = [client, peer].map(|address| format!("http://{address}"));
        let folder = tempfile::tempdir()?;
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path())
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--unsafe-no-fsync"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("etcd")?;
        let this = Self { child, url, folder };
        syncguard_test_services::wait::until("etcd", Duration::from_secs(10), || {
            Ok(std::net::TcpStream::connect(client).is_ok())
        })?;
        Ok(this)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = &self.folder;
    }
}
