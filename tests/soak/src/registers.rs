//! Data that a fence protects: hashes on a Redis server of their own, whose connection is never broken.
//!
//! A holder first claims the register: it reads the value and leaves its fence. Then it writes. Both are refused
//! after a higher fence was left. The claim matters as much as the write: if only writes left the fence, a late
//! holder could still write between its successor's read and its successor's write, and that update would be lost.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fred::clients::Client;
use fred::interfaces::{ClientLike as _, LuaInterface as _};
use fred::types::config::{Config, PerformanceConfig, ReconnectPolicy};
use syncguard::Fence;
use syncguard_history::{Answer, Call, Entry, Recorder};

#[derive(Clone)]
pub(crate) struct Registers {
    client: Client,
    recorder: Recorder,
}

/// Leaves the fence, or returns -1.
const FENCED: &str = "
    if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then return -1 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1])";
const CLAIM: &str = "return tonumber(redis.call('HGET', KEYS[1], 'value') or 0)";
/// The store counts the writes in the write itself.
const WRITE: &str = "
    redis.call('HSET', KEYS[1], 'value', ARGV[2])
    return redis.call('HINCRBY', KEYS[1], 'writes', 1)";
const STATE: &str = "return redis.call('HMGET', KEYS[1], 'value', 'writes')";

/// A busy server gets time.
const BOUND: Duration = Duration::from_secs(10);

impl Registers {
    pub(crate) async fn connect(url: &str, recorder: Recorder) -> Result<Self> {
        let performance =
            PerformanceConfig { default_command_timeout: BOUND, ..PerformanceConfig::default() };
        let reconnect = ReconnectPolicy::new_constant(0, 50);
        let client = Client::new(Config::from_url(url)?, Some(performance), None, Some(reconnect));
        client.init().await?;
        Ok(Self { client, recorder })
    }

    /// Reads a register and leaves the fence. `None` if the register has a higher one.
    pub(crate) async fn claim(&self, register: &str, fence: Fence) -> Result<Option<u64>> {
        let (name, fence) = (register.to_owned(), fence.get());
        let pending = self.recorder.call(Call::Claim { register: name, fence });
        let result = self.eval(CLAIM, register, vec![fence.to_string()]).await;
        let result = result.map(|value| u64::try_from(value).ok());
        pending.answer(match &result {
            Ok(Some(value)) => Answer::Claimed { value: *value },
            Ok(None) => Answer::Rejected,
            Err(_) => unknown(),
        });
        result
    }

    /// Writes a register, if it has no higher fence.
    pub(crate) async fn write(&self, register: &str, fence: Fence, value: u64) -> Result<()> {
        let (name, fence) = (register.to_owned(), fence.get());
        let pending = self.recorder.call(Call::Write { register: name, fence, value });
        let arguments = vec![fence.to_string(), value.to_string()];
        let result = self.eval(WRITE, register, arguments).await;
        pending.answer(match &result {
            Ok(writes) if *writes > 0 => Answer::Written,
            Ok(_) => Answer::Rejected,
            Err(_) => unknown(),
        });
        result.map(drop)
    }

    /// Records the contents of a register.
    pub(crate) async fn note(&self, register: &str) -> Result<()> {
        let fields: Vec<Option<u64>> =
            self.client.eval(STATE, vec![name(register)], Vec::<String>::new()).await?;
        let field = |index: usize| fields.get(index).copied().flatten().unwrap_or_default();
        let (value, writes) = (field(0), field(1));
        self.recorder.note(Entry::Register { register: register.to_owned(), value, writes });
        Ok(())
    }

    /// Closes the connection; its tasks end.
    pub(crate) async fn close(self) {
        // The connection may be closed already.
        let _ = self.client.quit().await;
    }

    async fn eval(&self, script: &str, register: &str, arguments: Vec<String>) -> Result<i64> {
        let script = format!("{FENCED}\n{script}");
        let answer = self.client.eval(script, vec![name(register)], arguments);
        Ok(tokio::time::timeout(BOUND, answer).await.context("a register that is silent")??)
    }
}

fn unknown() -> Answer {
    Answer::Failed { code: "register".to_owned(), unknown: true }
}

fn name(register: &str) -> String {
    format!("register:{register}")
}
