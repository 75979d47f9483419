import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.calcite.config.Lex;
import org.apache.calcite.sql.parser.SqlParser;
import org.apache.flink.sql.parser.impl.FlinkSqlParserImpl;
import org.apache.flink.sql.parser.validate.FlinkSqlConformance;

/** Parses files with statements of Flink SQL, and prints the number of statements of each. */
public class Parse {
  public static void main(String[] files) throws Exception {
    var config =
        SqlParser.config()
            .withParserFactory(FlinkSqlParserImpl.FACTORY)
            .withConformance(FlinkSqlConformance.DEFAULT)
            .withLex(Lex.JAVA)
            .withIdentifierMaxLength(256);
    for (var file : files) {
      var text = Files.readString(Path.of(file));
      System.out.println(SqlParser.create(text, config).parseStmtList().size());
    }
  }
}
