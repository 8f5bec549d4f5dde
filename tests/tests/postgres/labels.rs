//! Processes with labels, processes without, and clients like the TypeScript library on the same keys, also while its
//! tables get the column for labels.

#![allow(clippy::print_stdout, reason = "counts for a human eye")]

use anyhow::Result;
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{LockId, PostgresBackend, setup_schema};
use syncguard_test_effort::either;
use syncguard_tests::labels::{self, Other, Site, Size, run};

use crate::postgres::schema::their_ddl;
use crate::postgres::support::{Tables, connect, pool, shared};
use crate::postgres::typescript;

struct Postgres {
    tables: Tables,
    admin: Client,
}

impl Postgres {
    /// With the tables of the TypeScript library, which has no labels.
    async fn new() -> Result<Self> {
        let (tables, admin) = (Tables::fresh(), connect(&shared().url()).await);
        admin.batch_execute(&their_ddl(&tables)).await?;
        Ok(Self { tables, admin })
    }
}

impl Site for Postgres {
    type Other = TypeScript;

    async fn connect(&self, label: &str) -> Result<syncguard::DynBackend> {
        let options = self.tables.options().with_holder(label).with_pool_size(2);
        let backend = PostgresBackend::connect_with(&shared().url(), options).await?;
        Ok(syncguard::DynBackend::new(backend))
    }

    async fn other(&self) -> Result<TypeScript> {
        let client = connect(&shared().url()).await;
        Ok(TypeScript { client, tables: self.tables.clone() })
    }

    async fn expire(&self, key: &str) -> Result<bool> {
        self.tables.age(&self.admin, key, 120_000).await;
        Ok(true)
    }

    async fn migrate(&self) -> Result<()> {
        Ok(setup_schema(&pool(&shared().url(), 1), &self.tables.options()).await?)
    }
}

struct TypeScript {
    client: Client,
    tables: Tables,
}

impl Other for TypeScript {
    async fn acquire(&mut self, key: &str, lock_id: LockId) -> Result<Option<u64>> {
        let Self { client, tables } = self;
        let taken = typescript::acquire_as(client, tables, key, lock_id, 60_000).await?;
        Ok(taken.map(|fence| fence.parse()).transpose()?)
    }

    async fn release(&mut self, lock_id: LockId) -> Result<bool> {
        typescript::release(&mut self.client, &self.tables, lock_id).await
    }
}

fn size() -> Size {
    Size { labelled: 2, unlabelled: 1, others: 2, rounds: either(40, 500) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lookup_shows_the_label_of_another_lock() -> Result<()> {
    let site = Postgres::new().await?;
    site.migrate().await?;
    println!("{}", run(site, labels::Tables::Ours, size()).await?);
    Ok(())
}

/// The processes start on the tables of the TypeScript library, and connect anew one after the other after `setup_schema`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_column_is_added_during_the_run() -> Result<()> {
    println!("{}", run(Postgres::new().await?, labels::Tables::OfTypeScript, size()).await?);
    Ok(())
}
