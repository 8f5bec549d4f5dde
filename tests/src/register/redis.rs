//! A hash for each register, changed by scripts.

use std::time::Duration;

use anyhow::Result;
use fred::clients::Client;
use fred::interfaces::{ClientLike as _, LuaInterface as _};
use fred::types::config::{Config, PerformanceConfig, ReconnectPolicy};

use super::State;

#[derive(Clone)]
pub(super) struct Redis(Client);

/// Leaves the fence, or returns -1.
const FENCED: &str = "
    if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then return -1 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1])";
const CLAIM: &str = "return tonumber(redis.call('HGET', KEYS[1], 'value') or 0)";
const WRITE: &str = "
    redis.call('HSET', KEYS[1], 'value', ARGV[2])
    return redis.call('HINCRBY', KEYS[1], 'writes', 1)";

const STATE: &str = "return redis.call('HMGET', KEYS[1], 'value', 'writes', 'fence')";

impl Redis {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let performance = PerformanceConfig {
            default_command_timeout: Duration::from_secs(10),
            ..PerformanceConfig::default()
        };
        let reconnect = ReconnectPolicy::new_constant(0, 50);
        let client = Client::new(Config::from_url(url)?, Some(performance), None, Some(reconnect));
        client.init().await?;
        Ok(Self(client))
    }

    pub(super) async fn claim(&self, register: &str, fence: u64) -> Result<Option<u64>> {
        let value: i64 = self.eval(CLAIM, register, vec![fence.to_string()]).await?;
        Ok(u64::try_from(value).ok())
    }

    pub(super) async fn write(&self, register: &str, fence: u64, value: u64) -> Result<bool> {
        let arguments = vec![fence.to_string(), value.to_string()];
        Ok(self.eval(WRITE, register, arguments).await? > 0)
    }

    pub(super) async fn state(&self, register: &str) -> Result<State> {
        let key = vec![name(register)];
        let fields: Vec<Option<u64>> = self.0.eval(STATE, key, Vec::<String>::new()).await?;
        let field = |index: usize| fields.get(index).copied().flatten().unwrap_or_default();
        Ok(State { value: field(0), writes: field(1), fence: field(2) })
    }

    pub(super) async fn close(self) {
        // The connection may be closed already.
        let _ = self.0.quit().await;
    }

    async fn eval(&self, script: &str, register: &str, arguments: Vec<String>) -> Result<i64> {
        Ok(self.0.eval(format!("{FENCED}\n{script}"), vec![name(register)], arguments).await?)
    }
}

fn name(register: &str) -> String {
    format!("register:{register}")
}
