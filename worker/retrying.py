"""The table of retries that a configuration means."""

from ..rollback import BadPolicy, RetryTable, default_retry_table, read_retry_table
from .config import Config, ConfigError, file_text


def retry_table(config: Config) -> RetryTable:
    """The software's own, under the deployment's file where there is one. Raises ConfigError."""
    if not config.retry_file:
        return default_retry_table()
    try:
        return read_retry_table(file_text(config.retry_file, "retry_file"))
    except BadPolicy as error:
        raise ConfigError(f"retry_file {config.retry_file}: {error}") from error
