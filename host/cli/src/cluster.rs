//! The value of `--on`: the cluster that runs the jobs of a manifest.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Address of the Ray cluster. If `None`, Ray selects the cluster.
    pub(crate) address: Option<String>,
}

impl Cluster {
    /// Parses `ray` or `ray=ADDRESS`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (engine, address) = match text.split_once('=') {
            Some((engine, address)) => (engine, Some(address.to_owned())),
            None => (text, None),
        };
        if engine != "ray" {
            return Err("expected `ray` or `ray=ADDRESS`".to_owned());
        }
        match address.as_deref() {
            Some("") => Err("the address after `ray=` is missing".to_owned()),
            Some(client) if client.starts_with("ray://") => Err(
                "a Ray client loses its work if the connection breaks; run ferry on a node of the cluster, or with \
                 `ray job submit`"
                    .to_owned(),
            ),
            _ => Ok(Self { address }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_may_have_an_address() {
        let address = |address: &str| Ok(Cluster { address: Some(address.to_owned()) });
        assert_eq!(Cluster::parse("ray"), Ok(Cluster { address: None }));
        assert_eq!(Cluster::parse("ray=10.0.0.1:6379"), address("10.0.0.1:6379"));
        assert_eq!(Cluster::parse("ray=auto"), address("auto"));
        for wrong in ["dask", "ray=", "rayon", "ray=ray://head:10001"] {
            assert!(Cluster::parse(wrong).is_err(), "{wrong}");
        }
    }
}
