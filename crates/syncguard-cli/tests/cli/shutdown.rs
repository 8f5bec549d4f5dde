//! The command is ended while its first request is on the way.

use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::wait;

use crate::harness::{Harness, LONG};

/// A lock that is granted after SIGTERM is released before the program ends.
#[test]
fn a_lock_that_is_granted_after_sigterm_is_given_back() -> Result<()> {
    let server = RedisServer::start()?;
    let direct = Harness::at(server.url(), None);
    // From now on the server knows the scripts, so an acquire is one request.
    direct.run(&["run", "k", "--", "true"])?.expect(0)?;
    let proxy = FaultProxy::start(server.port())?;
    proxy.set_latency(Duration::ZERO, Duration::from_millis(500));
    let far = Harness::at(format!("redis://127.0.0.1:{}", proxy.port()), None);
    // If the signal comes only after the answer, it ends the command, with the same status.
    let running = far.start(&["run", "k", "--", "sleep", "1000"])?;
    // The server has granted the lock, and its answer is on the way.
    wait::until("the grant", LONG, || Ok(server.cli(&["EXISTS", "syncguard:k"])? == "1"))?;
    running.signal(Signal::TERM)?;
    running.ended()?.expect(143)?;
    ensure!(server.cli(&["EXISTS", "syncguard:k"])? == "0", "the lock outlives its holder");
    ensure!(direct.is_free("k")?);
    Ok(())
}
