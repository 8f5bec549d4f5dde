//! Random sequences give the same answers on the server and on the memory backend.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use syncguard_memory::MemoryBackend;
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{ErrorCode, NotHeld, PostgresBackend};
use syncguard_tests::differential::{Answer, Mix, Names, Step, take};
use tokio::runtime::{Builder, Runtime};

use crate::postgres::support::{Tables, connect, shared};

const KEYS: [&str; 3] = ["one", "two", "caf\u{e9}"];
const IDS: usize = 5;

/// The model's time stands still unless a step moves it.
struct Model {
    runtime: Runtime,
    backend: MemoryBackend,
}

impl Model {
    fn new() -> Self {
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().expect("tokio");
        let backend = runtime.block_on(async { MemoryBackend::new() });
        Self { runtime, backend }
    }

    fn take(&self, step: Step, names: &Names) -> Answer {
        self.runtime.block_on(async {
            if let Step::Pass { millis } = step {
                tokio::time::advance(Duration::from_millis(millis)).await;
            }
            take(&self.backend, step, names).await
        })
    }
}

struct Real {
    backend: PostgresBackend,
    admin: Client,
    tables: Tables,
}

impl Real {
    async fn take(&self, step: Step, names: &Names) -> Answer {
        if let Step::Pass { millis } = step {
            let millis = i64::try_from(millis).expect("a time");
            for key in KEYS {
                self.tables.age(&self.admin, key, millis).await;
            }
        }
        take(&self.backend, step, names).await
    }

    async fn clear(&self) {
        let sql = format!("DELETE FROM {}; DELETE FROM {}", self.tables.locks, self.tables.fences);
        self.admin.batch_execute(&sql).await.expect("empty tables");
    }
}

#[test]
fn the_server_answers_as_the_model_does() {
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("tokio");
    let tables = Tables::fresh();
    let real = runtime.block_on(async {
        let admin = connect(&shared().url()).await;
        Real { backend: tables.backend(1).await, admin, tables }
    });
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let mix = Mix {
        keys: KEYS.len(),
        ids: IDS,
        ids_have_keys: false,
        // Far enough apart that the duration of the steps on the server does not matter.
        ttls: vec![60_000, 600_000, 6_000_000],
        passes: vec![30_000, 300_000, 3_000_000],
    };
    TestRunner::new(config)
        .run(&mix.steps(), |steps| {
            let model = Model::new();
            let names = Names::new(&KEYS, IDS);
            runtime.block_on(real.clear());
            for step in &steps {
                let expected = model.take(*step, &names);
                let seen = runtime.block_on(real.take(*step, &names));
                // The model forgets an expired lock after a while, the table keeps it.
                let forgotten = (&expected, &seen)
                    == (&Answer::NotHeld(NotHeld::NotFound), &Answer::NotHeld(NotHeld::Expired));
                // So a lock id stays taken for longer.
                let remembered = matches!(expected, Answer::Acquired(_))
                    && seen == Answer::Failed(ErrorCode::InvalidArgument);
                if remembered {
                    return Ok(());
                }
                prop_assert!(
                    forgotten || expected == seen,
                    "{step:?}: {seen:?} instead of {expected:?}"
                );
            }
            Ok(())
        })
        .unwrap();
}
