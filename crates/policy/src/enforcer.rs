//! Syncs the kernel's tables with the policies: the one place where they are changed.

use std::io;

use corten_net::namespace::Namespace;
use corten_net::nftables::{Nftables, Transaction};

use crate::inputs::Inputs;
use crate::model::{Model, model};
use crate::table::{self, TABLE};

/// The tables of one network namespace.
#[derive(Debug)]
pub struct Enforcer {
    node: String,
    nftables: Nftables,
    families: [Family; 2],
}

#[derive(Debug)]
struct Family {
    ipv4: bool,
    /// The model that the table enforces; `None` for the unknown table of an earlier process.
    applied: Option<Model>,
}

/// The desired models of both families.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted([Model; 2]);

impl Enforcer {
    /// Writes nothing yet: the table of an earlier process stays in force.
    pub fn open(node: &str, namespace: &Namespace) -> io::Result<Enforcer> {
        let families = [true, false].map(|ipv4| Family { ipv4, applied: None });
        Ok(Enforcer { node: node.to_owned(), nftables: Nftables::open(namespace)?, families })
    }

    /// Computes the desired models of this node.
    pub fn wanted(&self, inputs: &Inputs) -> Wanted {
        Wanted([true, false].map(|ipv4| model(inputs, &self.node, ipv4)))
    }

    /// Writes the models to the kernel. A failure leaves the tables as they were.
    pub fn enforce(&mut self, wanted: Wanted) -> io::Result<()> {
        for (family, wanted) in self.families.iter_mut().zip(wanted.0) {
            family.enforce(wanted, &mut self.nftables)?;
        }
        Ok(())
    }

    /// Removes the tables.
    pub fn clean_up(&mut self) -> io::Result<()> {
        for family in &mut self.families {
            family.applied = None;
            let gone = Transaction::deleting_in(table::family(family.ipv4), TABLE);
            gone.commit(&mut self.nftables)?;
        }
        Ok(())
    }
}

impl Family {
    fn enforce(&mut self, wanted: Model, nftables: &mut Nftables) -> io::Result<()> {
        if let Some(applied) = &self.applied {
            let change = table::change(applied, &wanted, self.ipv4);
            if change.is_empty() || change.commit(nftables).is_ok() {
                self.applied = Some(wanted);
                return Ok(());
            }
            // Another program changed the table, or the kernel still uses a removed chain: the whole table is replaced.
            self.applied = None;
        }
        table::whole(&wanted, self.ipv4).commit(nftables)?;
        self.applied = Some(wanted);
        Ok(())
    }
}
